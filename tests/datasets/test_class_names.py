import pytest

from pipeline.datasets.class_names import class_order, spoken, spoken_names


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("desk_lamp", "desk lamp"),
        ("teddy-bear", "teddy bear"),
        ("Real World", "Real World"),
        ("__a__b-_c ", "a b c"),
        ("7", "7"),
        ("_", "_"),
    ],
)
def test_spoken(folder, words):
    assert spoken(folder) == words


def test_the_order_is_sorted_and_capitals_come_first():
    assert class_order(["b", "a", "b", "T"]) == ("T", "a", "b")


def test_given_names_decide():
    assert class_order(["b"], {"c": "", "a": ""}) == ("a", "c")


def test_given_names_are_spoken_as_given():
    assert spoken_names(["back_pack", "desk_lamp"], {"back_pack": "backpack"}) == [
        "backpack",
        "desk lamp",
    ]
