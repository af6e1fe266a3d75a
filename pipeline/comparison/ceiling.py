"""The ceiling of a comparison, which is **not a method**: the method's classifier, fitted to the target's true labels.

It is run like every method, on a `Seed` whose target has no labels, but of another problem: target → target, in which
the source is the target's own train images with their labels. So no way for target labels into a method is opened, and
what it fits is what the method would fit if all its pseudo-labels were right: the same views, kernel and ridge, and the
views vote at test. Only the source's scatter, which the method pools with the target's, is not there: where the target
has few images, the method on true labels would be better still.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.referee_variants import predict_test, source_models
from pipeline.method.variants import CALIBRATED
from pipeline.problem.problem import LabelledProblem

LABELLED_TARGET = "labelled-target"
OPTIONS = replace(CALIBRATED, source_ridge=CALIBRATED.ridge)

CEILING = ComparedMethod(
    lambda seed: predict_test(seed, OPTIONS, [model.classifier for model in source_models(seed, OPTIONS)]),
    title="fitted to the target's labels (a ceiling, not a method)",
    group="ceiling",
)


def seen_by(method: ComparedMethod, problem: LabelledProblem) -> LabelledProblem:
    """Return the problem whose seeds a method is run on: its own, or target → target for the ceiling."""
    if method.group != "ceiling":
        return problem
    return LabelledProblem(problem.name, problem.target, problem.target)
