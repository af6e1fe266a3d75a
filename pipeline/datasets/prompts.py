"""The sentences that a language model turns into class embeddings."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ARTICLE_AT_END = re.compile(r"(?<![^\s])(a|an|the) $", re.IGNORECASE)
_OWN_ARTICLE = re.compile(r"(a|an|the) ", re.IGNORECASE)
# Spelt with a vowel but spoken with a consonant (a unicycle), and the reverse (an hourglass).
_SOUNDS_LIKE_CONSONANT = re.compile(r"(uni(?!n)|use|usu|uk|eu|one|once)", re.IGNORECASE)
_SOUNDS_LIKE_VOWEL = re.compile(r"[aeiou]|hour|hono|heir", re.IGNORECASE)


def prompts(class_name_spoken: str, templates: Sequence[str]) -> list[str]:
    """Return one sentence per template, ``{}`` replaced by the class's name as people say it.

    An article right before ``{}`` fits itself to the name: "a photo of a {}" gives "a photo of an
    alarm clock", and "a photo of the Eiffel Tower" for a name that brings its own. All other text
    is kept.
    """
    return [_sentence(template, class_name_spoken) for template in templates]


def _sentence(template: str, name: str) -> str:
    before, after = template.split("{}")
    article = _ARTICLE_AT_END.search(before)
    if article is None:
        return f"{before}{name}{after}"
    stem, word = before[: article.start()], article.group(1)
    if _OWN_ARTICLE.match(name):
        return f"{stem}{name}{after}"
    if word.lower() != "the":
        word = f"{word[0]}n" if _starts_with_a_vowel_sound(name) else word[0]
    return f"{stem}{word} {name}{after}"


def _starts_with_a_vowel_sound(name: str) -> bool:
    if _SOUNDS_LIKE_CONSONANT.match(name):
        return False
    return _SOUNDS_LIKE_VOWEL.match(name) is not None
