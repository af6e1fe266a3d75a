"""Define the classes of the pretraining and the captions of their images.

62 characters form 48 classes, because print does not distinguish all of them: old-style figures draw zero like the
letter o and one like a capital i, and many letters have the same shape in both cases.
"""

import torch

_SPOKEN = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SAME_SHAPE_IN_BOTH_CASES = "ckpsuvwxyz"  # without o, which belongs to zero

_DIGIT_TEMPLATES = (
    "a photo of the digit {name}",
    "a photo of the digit {name}",
    "a photo of the digit {name}.",
    "a photo of the number {name}",
    "a photo of a {name}",
    "the digit {name}",
    "the number {name}",
    "the digit {sign}",
    "the number {sign}",
    "a photo of the digit {sign}",
    "a photo of the number {sign}",
    "an image of the digit {name}",
    "a picture of the digit {name}",
    "{name}",
)
_LETTER_TEMPLATES = (
    "a photo of the letter {name}",
    "a photo of the {name}",
    "the letter {name}",
    "an image of the letter {name}",
    "a picture of the letter {name}",
    "a {name}",
)


def _letter_classes() -> list[tuple[str, str]]:
    """Return (spoken name, characters) for every class of letters."""
    classes = []
    for letter in "abcdefghijklmnopqrstuvwxyz":
        if letter == "o":
            continue
        if letter in _SAME_SHAPE_IN_BOTH_CASES:
            classes.append((letter, letter + letter.upper()))
            continue
        if letter != "l":
            classes.append((f"small {letter}", letter))
        if letter != "i":
            classes.append((f"capital {letter}", letter.upper()))
    return classes


LETTER_CLASSES = _letter_classes()
CLASS_COUNT = len(_SPOKEN) + len(LETTER_CLASSES)
# (character, class); zero is also drawn as o, one also as capital i and small l.
CHARACTERS: list[tuple[str, int]] = [
    *((str(digit), digit) for digit in range(10)),
    *(("o", 0), ("O", 0), ("l", 1), ("I", 1)),
    *(
        (character, index)
        for index, (_, characters) in enumerate(LETTER_CLASSES, start=len(_SPOKEN))
        for character in characters
    ),
]


def captions_of(class_index: int) -> list[str]:
    """Return all captions of a class."""
    if class_index < len(_SPOKEN):
        name = _SPOKEN[class_index]
        return [template.format(name=name, sign=class_index) for template in _DIGIT_TEMPLATES]
    name, _ = LETTER_CLASSES[class_index - len(_SPOKEN)]
    return [template.format(name=name) for template in _LETTER_TEMPLATES]


def random_captions(generator: torch.Generator) -> list[str]:
    """Return one random caption per class, in class order."""
    return [
        captions[int(torch.randint(0, len(captions), (1,), generator=generator))]
        for captions in map(captions_of, range(CLASS_COUNT))
    ]
