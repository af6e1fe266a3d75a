"""Run the method at other values of D, sigma and its options, one at a time, for `sensitivity` and `select`."""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from pipeline.comparison.referee_variants import adapted_classifiers, all_kept_in_memory, predict_test
from pipeline.comparison.selection import label_free_scores
from pipeline.method.continual_metrics import final_accuracy
from pipeline.method.kernel_directions import nested_directions
from pipeline.method.kernel_rows import KeptFeatures, KernelRows, SweptFeatures
from pipeline.method.random_fourier_features import Basis, Directions
from pipeline.method.variants import MethodOptions
from pipeline.problem.method_options import method_options
from pipeline.problem.problem import LabelledProblem
from pipeline.problem.seed import Seed
from pipeline.problem.source_fit import basis_recipe
from pipeline.store.basis_file import BasisRecipe


@dataclass(frozen=True)
class Run:
    """Everything that determines the results of a run; settings that lead to equal runs are computed once."""

    recipe: BasisRecipe
    options: MethodOptions


@dataclass(frozen=True)
class Outcome:
    """The result of a run on one seed."""

    accuracy: float  # A_T, which requires target labels
    scores: Mapping[str, float]  # `selection.SCORES`, which require none; empty if not requested


def runs_by_setting(
    problem: LabelledProblem,
    rff: Mapping[str, Any],
    variant: str,
    options: Mapping[str, Any],
    values: Mapping[str, Iterable[Any]],
) -> dict[tuple[str, Any], Run]:
    """Return the run of each value of D, sigma and the options, by setting and value; other settings are unchanged.

    ``rff`` is the section of params.yaml; ``variant`` and ``options`` come from its section `method`.
    """
    runs = {}
    for setting, tried in values.items():
        for value in tried:
            drawn, chosen = dict(rff), dict(options)
            (drawn if setting in ("D", "sigma") else chosen)[setting] = value
            runs[setting, value] = Run(basis_recipe(problem.source, **drawn), method_options(variant, chosen))
    return runs


@dataclass(frozen=True, eq=False)
class SweptSeed(Seed):
    """A seed under one basis of a sweep; it shares features with the seed's other bases, see `SweptFeatures`."""

    opened: Seed  # the same seed, which holds the shared results
    widest: Basis
    widths: tuple[int, ...]  # every D

    def shared(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return a result that is computed once, see `Seed.shared`."""
        kind, *details = key if isinstance(key, tuple) else (key,)
        if kind == "neighbours":  # depend on the embeddings, not on the basis
            return self.opened.shared(key, make)
        if kind == "basis" and details[1] < self.basis.D:
            return super().shared(key, lambda: replace(self.basis, directions=self._directions(details[0])))
        if kind in ("features", "source features"):
            return super().shared(key, lambda: self._features((kind, *details[:-1]), make()))
        return super().shared(key, make)

    def _widest(self, d: int) -> Basis:
        """Return the widest basis for rows of width d, with or without CLIP's embedding."""
        return self.widest if d == self.widest.d else self.widest.joint()

    def _directions(self, d: int) -> Directions:
        key, widest = ("directions", self.widest, d), self._widest(d)
        return self.opened.shared(key, lambda: nested_directions(widest, self.widths))[self.basis.D]

    def _features(self, images: tuple[Any, ...], features: KernelRows) -> KernelRows:
        basis, widest = features.basis, self._widest(features.basis.d)
        views = dict(features.views)
        for view, kept in features.views.items():
            if isinstance(kept, KeptFeatures):
                key = (*images, self.widest, view)
                swept = self.opened.shared(key, lambda: SweptFeatures(widest, self.widths))
                views[view] = KeptFeatures(basis, kept.rows, compute=swept.deviations)
        return KernelRows(basis, views)


def swept_seed(opened: Seed, basis: Basis, widest: Basis, widths: Iterable[int]) -> Seed:
    """Return the seed under a basis; it shares features with other bases of the same draws if these fit in memory."""
    if not all_kept_in_memory(opened, widest.D):
        return opened.with_basis(basis)
    fields = (opened.number, basis, opened.source, opened.target)
    return SweptSeed(*fields, opened=opened, widest=widest, widths=tuple(widths))


def under_basis(opened: Seed, recipe: BasisRecipe, recipes: Iterable[BasisRecipe], seed_index: int) -> Seed:
    """Return a seed under the basis of one of the ``recipes`` of a sweep."""

    def draws(candidate: BasisRecipe) -> BasisRecipe:
        return replace(candidate, D=1, sigmas=(), asked_sigma=0.0)

    related = [candidate for candidate in recipes if draws(candidate) == draws(recipe)]
    widest = max(related, key=lambda candidate: candidate.D)
    widest_basis = opened.shared(widest, lambda: widest.draw(seed_index))
    basis = widest_basis.nested(recipe.D) if recipe.sigmas == widest.sigmas else recipe.draw(seed_index)
    return swept_seed(opened, basis, widest_basis, (candidate.D for candidate in related))


def swept_outcomes(
    problem: LabelledProblem, runs: Iterable[Run], scored: Collection[Run], for_each: Callable[..., list[list[Any]]]
) -> dict[Run, Sequence[Outcome]]:
    """Execute each distinct run on every seed and return its outcomes, one per seed.

    Runs with the same basis are executed together, since they share its features. Only the runs in ``scored`` get
    label-free scores. ``for_each`` runs the items of every seed: `extraction.executor.Executor.for_each_item`.
    """
    bases: dict[BasisRecipe, list[Run]] = {}
    for run in dict.fromkeys(runs):
        bases.setdefault(run.recipe, []).append(run)
    if not bases:
        return {}
    widest = max(bases, key=lambda recipe: recipe.D)
    by_seed = for_each(
        lambda seed_index: problem.seed(seed_index, widest.draw(seed_index)),
        partial(seed_outcomes, problem, scored, recipes=list(bases)),
        len(problem.target.seeds),
        list(bases.values()),
        D=widest.D,
    )
    by_run = zip(*(chain.from_iterable(seed) for seed in by_seed), strict=True)
    return dict(zip(chain.from_iterable(bases.values()), by_run, strict=True))


def mean_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the mean over the seeds, without scores that are undefined on some seed."""
    scores = {name: float(np.mean([outcome.scores[name] for outcome in outcomes])) for name in outcomes[0].scores}
    defined = {name: score for name, score in scores.items() if np.isfinite(score)}
    return Outcome(float(np.mean([outcome.accuracy for outcome in outcomes])), defined)


def adapts(variant: str, options: Mapping[str, Any]) -> bool:
    """Return whether a variant adapts; the others have no settings to choose."""
    return method_options(variant, options).predictor == "adapted"


def seed_outcomes(
    problem: LabelledProblem,
    scored: Container[Run],
    seed_index: int,
    opened: Seed,
    runs: Sequence[Run],
    *,
    recipes: Iterable[BasisRecipe],
) -> list[Outcome]:
    """Execute ``runs``, which have one basis in common, on a seed.

    Only the runs in ``scored`` get label-free scores. ``recipes`` are those of the whole sweep.
    """
    seed = under_basis(opened, runs[0].recipe, recipes, seed_index)
    outcomes = []
    for run in runs:
        classifiers = adapted_classifiers(seed, run.options)
        predictions = predict_test(seed, run.options, classifiers)
        last, scores = classifiers[-1], dict[str, float]()
        if run in scored and last is not None:
            scores = label_free_scores(seed, run.options, last)
        outcomes.append(Outcome(final_accuracy(problem.accuracies(seed_index, predictions)), scores))
    return outcomes
