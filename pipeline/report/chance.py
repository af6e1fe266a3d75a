"""Whether a classifier does better than guessing, and what to do where it does not."""

from __future__ import annotations

import math

from pipeline.report.evaluation import ProbeFigures

REMEDIES = {
    "CLIP": "set method.variant: no_clip in params.yaml, write other prompts (templates and class_names in "
    "suite.yaml), or use other weights of the language model",
    "the vision model": "use other weights of the vision model, or check its preprocessing",
    "the source model": "use other weights of the vision model, or check the labels of the source",
}


def at_chance(accuracy: float, classes: int, images: int) -> bool:
    """Say whether an accuracy is within three standard errors of guessing one of the classes, or below.

    Parameters
    ----------
    accuracy : float
        In percent.
    classes, images : int
        How many classes were told apart, and on how many images.

    Examples
    --------
    >>> at_chance(9.6, classes=10, images=1000), at_chance(30.0, classes=10, images=1000)
    (True, False)
    """
    chance = 1 / classes
    return accuracy / 100 <= chance + 3 * math.sqrt(chance * (1 - chance) / max(images, 1))


def chance_warning(who: str, accuracy: float, *, classes: int, images: int, where: str) -> str:
    """Return a line for a branch that guesses, with what to do; empty for one that does not."""
    if not at_chance(accuracy, classes, images):
        return ""
    return (
        f"{who} guesses on {where}: {accuracy:.1f}% right, where guessing one of {classes} classes gives "
        f"{100 / classes:.1f}%; {REMEDIES[who]}"
    )


def guessing(probe: ProbeFigures, domain: str) -> list[str]:
    """Return a warning for each model that is no better than guessing on a domain, by the figures of `probe`."""
    models = (
        ("CLIP", probe.zero_shot, probe.images),
        ("the vision model", probe.nearest_mean, probe.test_images),
    )
    found = (
        chance_warning(who, 100 * accuracy, classes=probe.classes, images=images, where=domain)
        for who, accuracy, images in models
        if accuracy is not None
    )
    return [warning for warning in found if warning]
