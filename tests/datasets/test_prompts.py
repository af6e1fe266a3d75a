"""Prompts: articles adapt to class names, and all other text of a template is kept."""

import pytest

from pipeline.datasets.prompts import fill_templates, spoken


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
        ("{}", "a photo of a {}"),
    ],
)
def test_the_article_is_adapted_to_the_name(name, sentence):
    assert fill_templates(name, ["a photo of a {}"]) == [sentence]


@pytest.mark.parametrize(
    ("template", "bike", "mona_lisa"),
    [
        ("a sketch of an {}.", "a sketch of a bike.", "a sketch of the Mona Lisa."),
        ("the {} itself", "the bike itself", "the Mona Lisa itself"),
        ("a photo of {}", "a photo of bike", "a photo of the Mona Lisa"),
        ("A {}", "A bike", "the Mona Lisa"),
        ("plaza {}", "plaza bike", "plaza the Mona Lisa"),
        ("the digit {}", "the digit bike", "the digit the Mona Lisa"),
    ],
)
def test_all_other_text_of_a_template_is_kept(template, bike, mona_lisa):
    assert fill_templates("bike", [template, "{}"]) == [bike, "bike"]
    assert fill_templates("the Mona Lisa", [template]) == [mona_lisa]


@pytest.mark.parametrize(
    ("folder", "words"), [("desk_lamp", "desk lamp"), ("teddy-bear", "teddy bear"), ("__a__b-_c ", "a b c"), ("_", "_")]
)
def test_folder_names_are_spoken_as_words(folder, words):
    assert spoken(folder) == words
