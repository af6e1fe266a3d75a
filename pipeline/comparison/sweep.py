"""The method at other values of D, sigma and its options, one at a time: what `sensitivity` measures and chooses."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.comparison.referee_variants import adapted_classifiers, predict_test
from pipeline.comparison.selection import label_free_scores
from pipeline.method.continual_metrics import final_accuracy
from pipeline.method.variants import MethodOptions
from pipeline.problem.bases import basis_recipe
from pipeline.problem.method_options import method_options
from pipeline.problem.problem import LabelledProblem
from pipeline.problem.seed import Seed
from pipeline.store.basis_file import BasisRecipe


@dataclass(frozen=True)
class Run:
    """What decides the numbers of a run: two settings that lead to the same run are computed once."""

    recipe: BasisRecipe
    options: MethodOptions


@dataclass(frozen=True)
class Outcome:
    """A run on one seed."""

    accuracy: float  # A_T, which takes target labels
    scores: Mapping[str, float]  # of `selection.SCORES`, which take none; empty if the variant does not adapt


def runs_over(
    problem: LabelledProblem,
    rff: Mapping[str, Any],
    variant: str,
    options: Mapping[str, Any],
    values: Mapping[str, Sequence[Any]],
) -> Iterator[tuple[str, Any, Run]]:
    """Yield setting, value and run for all values of D, sigma and options, the other settings being as they are.

    Parameters
    ----------
    rff : mapping
        The section `rff` of params.yaml.
    variant, options
        `method.variant` and `method.options`.
    values : mapping of str to sequence
        By ``D``, ``sigma`` or the name of an option.
    """
    for setting, tried in values.items():
        for value in tried:
            basis = {**rff, setting: value} if setting in ("D", "sigma") else rff
            own = options if setting in ("D", "sigma") else {**options, setting: value}
            recipe = basis_recipe(problem.source, **basis)
            yield setting, value, Run(recipe, method_options(variant, own))


def outcomes_of(
    problem: LabelledProblem, scored: Container[Run], index: int, opened: Seed, runs: Sequence[Run]
) -> list[Outcome]:
    """Run the seed at ``index`` under one basis, which all ``runs`` have; label-free scores of those ``scored``."""
    seed = opened.with_basis(runs[0].recipe.draw(index))
    outcomes = []
    for run in runs:
        classifiers = adapted_classifiers(seed, run.options)
        predictions = predict_test(seed, run.options, classifiers)
        last, scores = classifiers[-1], dict[str, float]()
        if run in scored and last is not None:
            scores = label_free_scores(seed, run.options, last)
        outcomes.append(Outcome(final_accuracy(problem.accuracies(index, predictions)), scores))
    return outcomes
