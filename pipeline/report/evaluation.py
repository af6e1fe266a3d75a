"""What `evaluate` measured on a problem and `probe` on a domain, as the readers of their files see it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, FiniteFloat

from pipeline.report.compared_methods import LabelSpaceFigures

Classifiers = dict[str, tuple[float | None, int]]  # -> accuracy in percent, if known; of n images


class ProblemFigures(BaseModel):
    """The figures of the adapted model on a problem, in percent, as `evaluate` writes them."""

    A_T: FiniteFloat
    A_T_sd: FiniteFloat
    forgetting: FiniteFloat
    source_only_A_T: FiniteFloat
    clip_only_A_T: FiniteFloat
    test_images: int  # per seed
    classes: int
    made_with: dict[str, Any]  # see `pipeline.report.made_with`
    pseudo_label_accuracy: FiniteFloat | None = None  # none was kept
    weight_auroc: FiniteFloat | None = None  # all are right, or all are wrong
    ece: dict[str, FiniteFloat] = {}
    label_space: LabelSpaceFigures | None = None  # where images are rejected, or not of the closed set

    def classifiers(self) -> Classifiers:
        """Return the classifiers that do not adapt."""
        figures = {"CLIP": self.clip_only_A_T, "the source model": self.source_only_A_T}
        return {who: (accuracy, self.test_images) for who, accuracy in figures.items()}


class ProbeFigures(BaseModel):
    """First figures of a domain's features, as `probe` writes them; of a domain without labels, no accuracy."""

    images: int
    test_images: int  # per seed
    classes: int
    zero_shot: float | None  # of all images, a fraction
    nearest_mean: float | None  # of the test images, mean over the seeds
    nearest_mean_sd: float | None
    view_cosine: dict[str, float]

    def classifiers(self) -> Classifiers:
        """Return the classifiers that were tried on the features."""
        return {
            "CLIP": (self.zero_shot and 100 * self.zero_shot, self.images),
            "the vision model": (self.nearest_mean and 100 * self.nearest_mean, self.test_images),
        }
