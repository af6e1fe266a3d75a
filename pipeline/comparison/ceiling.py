"""Compute the ceiling of a comparison, **not a method**: the method's classifier fitted to the target's true labels.

It runs like every method, on a `Seed` whose target has no labels, but on the problem target → target, whose source is
the target's own train images with their labels. So methods still have no access to target labels. The classifier is
what the method would fit if all its pseudo-labels were right: same views, kernel and ridge, and the views vote at test.
Only the source's scatter, which the method pools with the target's, is missing. If the target has few images, the
method would be even better on true labels.
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

    problem_seed: Seed

    def shared(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return a result that is computed once, see `Seed.shared`."""
        kind, *details = key if isinstance(key, tuple) else (key,)
        if kind in ("basis", "features"):
            return self.problem_seed.shared(key, make)
        if kind == "source features":
            task = self.problem_seed.target.tasks[details[0]]
            rows = take(self.source.views["original"], np.flatnonzero(np.isin(self.source.labels, task.classes)))
            if np.array_equal(as_array(rows), as_array(task.views["original"])):  # no image of an unknown class
                return self.problem_seed.shared(("features", task, *details[1:]), make)
        return super().shared(key, make)


def ceiling_seed(problem: LabelledProblem, seed_index: int, seed: Seed) -> Seed:
    """Return the seed of target → target that corresponds to ``seed``, a seed of the problem."""
    labelled = LabelledProblem(problem.name, problem.target, problem.target).seed(seed_index, seed.basis).source
    return CeilingSeed(seed.number, seed.basis, labelled, seed.target, problem_seed=seed)
