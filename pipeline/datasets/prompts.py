"""Make the sentences from which a text encoder computes class embeddings."""

import re
from collections.abc import Sequence

_ARTICLE_AT_END = re.compile(r"(?<![^\s])(a|an|the) $", re.IGNORECASE)
_OWN_ARTICLE = re.compile(r"(a|an|the) ", re.IGNORECASE)
# spelled with a vowel but pronounced with a consonant (a unicycle), and the reverse (an hourglass)
_SOUNDS_LIKE_CONSONANT = re.compile(r"(uni(?!n)|use|usu|uk|eu|one|once)", re.IGNORECASE)
_SOUNDS_LIKE_VOWEL = re.compile(r"[aeiou]|hour|hono|heir", re.IGNORECASE)


def fill_templates(class_name_spoken: str, templates: Sequence[str]) -> list[str]:
    """Return one sentence per template, with ``{}`` replaced by the class's spoken name.

    An article right before ``{}`` is adapted to the name: "a photo of a {}" gives "a photo of an alarm clock", and
    "a photo of the Eiffel Tower" if the name has its own article. All other text is kept.

    Examples
    --------
    >>> fill_templates("alarm clock", ["a photo of a {}", "a sketch of the {}"])
    ['a photo of an alarm clock', 'a sketch of the alarm clock']
    """
    return [_sentence(template, class_name_spoken) for template in templates]


def spoken(name: str) -> str:
    """Return a folder name as words, for prompts.

    Examples
    --------
    >>> spoken("desk_lamp")
    'desk lamp'
    """
    words = name.replace("_", " ").replace("-", " ").split()
    return " ".join(words) or name


def _sentence(template: str, name: str) -> str:
    prefix, suffix = template.split("{}")
    article = _ARTICLE_AT_END.search(prefix)
    if article is None:
        return f"{prefix}{name}{suffix}"
    stem, word = prefix[: article.start()], article.group(1)
    if _OWN_ARTICLE.match(name):
        return f"{stem}{name}{suffix}"
    if word.lower() != "the":
        vowel = _SOUNDS_LIKE_VOWEL.match(name) and not _SOUNDS_LIKE_CONSONANT.match(name)
        word = f"{word[0]}n" if vowel else word[0]
    return f"{stem}{word} {name}{suffix}"
