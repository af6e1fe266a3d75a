import pytest

from pipeline.datasets.prompts import prompts


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("bike", "a photo of a bike"),
        ("alarm clock", "a photo of an alarm clock"),
        ("hourglass", "a photo of an hourglass"),
        ("unicycle", "a photo of a unicycle"),
        ("umbrella", "a photo of an umbrella"),
        ("onion", "a photo of an onion"),
        ("T-shirt", "a photo of a T-shirt"),
        ("the Eiffel Tower", "a photo of the Eiffel Tower"),
        ("a bike", "a photo of a bike"),
    ],
)
def test_the_article_fits_the_name(name, sentence):
    assert prompts(name, ["a photo of a {}"]) == [sentence]


def test_one_sentence_per_template():
    templates = ["a sketch of an {}.", "the {}", "a photo of {}", "A {}", "{}", "plaza {}"]
    assert prompts("bike", templates) == [
        "a sketch of a bike.",
        "the bike",
        "a photo of bike",
        "A bike",
        "bike",
        "plaza bike",
    ]


def test_a_name_with_its_own_article_replaces_the_templates():
    assert prompts("the Mona Lisa", ["the {} itself", "A {}", "a photo of {}"]) == [
        "the Mona Lisa itself",
        "the Mona Lisa",
        "a photo of the Mona Lisa",
    ]


def test_other_words_stay():
    assert prompts("seven", ["a photo of the digit {}"]) == ["a photo of the digit seven"]


def test_the_name_may_hold_braces():
    assert prompts("{}", ["a {}"]) == ["a {}"]
