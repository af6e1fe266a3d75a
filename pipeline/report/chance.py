"""Whether a classifier does better than guessing, and what to do where it does not."""

from __future__ import annotations

import math

from pipeline.report.results import ProbeFigures, ProblemFigures

REMEDIES = {
    "CLIP": "set method.variant: no_clip in params.yaml, write other prompts (templates and class_names in "
    "suite.yaml), or use other weights of the language model",
    "the vision model": "use other weights of the vision model, or check its preprocessing",
    "the source model": "use other weights of the vision model, or check the labels of the source",
}


def at_chance(accuracy: float, classes: int, images: int) -> bool:
    """Say whether an accuracy in percent is within three standard errors of guessing one of the classes, or below.

    Examples
    --------
    >>> at_chance(9.6, classes=10, images=1000), at_chance(30.0, classes=10, images=1000)
    (True, False)
    """
    chance = 1 / classes
    return accuracy / 100 <= chance + 3 * math.sqrt(chance * (1 - chance) / max(images, 1))


def guessing(figures: ProbeFigures | ProblemFigures, where: str) -> list[str]:
    """Return a line for each classifier that is no better than guessing on a domain or problem, with what to do."""
    n = figures.classes
    return [
        f"{who} guesses on {where}: {accuracy:.1f}% right, where guessing one of {n} classes gives "
        f"{100 / n:.1f}%; {REMEDIES[who]}"
        for who, (accuracy, images) in figures.classifiers().items()
        if accuracy is not None and at_chance(accuracy, n, images)
    ]
