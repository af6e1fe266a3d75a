"""The ceiling of a comparison, **not a method**: the method's classifier, fitted to the target's true labels.

It is run like every method, on a `Seed` whose target has no labels, but of another problem: target → target, in which
the source is the target's own train images with their labels. So no way for target labels into a method is opened, and
what it fits is what the method would fit if all its pseudo-labels were right: the same views, kernel and ridge, and
the views vote at test. Only the source's scatter, which the method pools with the target's, is not there: where the
target has few images, the method on true labels would be better still.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.referee_variants import predict_test, source_models
from pipeline.method.rows import as_array, take
from pipeline.method.variants import CALIBRATED
from pipeline.problem.problem import LabelledProblem
from pipeline.problem.seed import Seed

OPTIONS = replace(CALIBRATED, source_ridge=CALIBRATED.ridge)
CEILING = ComparedMethod(
    lambda seed: predict_test(seed, OPTIONS, [model.classifier for model in source_models(seed, OPTIONS)]),
    title="fitted to the target's labels (a ceiling, not a method)",
    group="ceiling",
)


@dataclass(frozen=True, eq=False)
class CeilingSeed(Seed):
    """A seed of target → target that shares the features of the target's rows with the problem's own seed."""

    own: Seed

    def shared(self, key: Any, make: Callable[[], Any]) -> Any:
        """Compute a result once, see `Seed.shared`."""
        kind, *of = key if isinstance(key, tuple) else (key,)
        if kind in ("basis", "features"):
            return self.own.shared(key, make)
        if kind == "source features":
            task = self.own.target.tasks[of[0]]
            rows = take(self.source.views["original"], np.flatnonzero(np.isin(self.source.labels, task.classes)))
            if np.array_equal(as_array(rows), as_array(task.views["original"])):  # no image of an unknown class
                return self.own.shared(("features", task, *of[1:]), make)
        return super().shared(key, make)


def ceiling_seed(problem: LabelledProblem, index: int, own: Seed) -> Seed:
    """Return the seed at ``index`` of target → target, given that of the problem."""
    labelled = LabelledProblem(problem.name, problem.target, problem.target).seed(index, own.basis).source
    return CeilingSeed(own.number, own.basis, labelled, own.target, own=own)
