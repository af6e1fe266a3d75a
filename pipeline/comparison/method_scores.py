"""Score the compared methods on the seeds of a problem."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.comparison.ceiling import ceiling_seed
from pipeline.comparison.registry import compared_method
from pipeline.errors import RefereeError, StoreError, one_line
from pipeline.method.continual_metrics import LabelSpaceScores, image_covariance
from pipeline.method.rows import Matrix64
from pipeline.problem.problem import LabelledProblem
from pipeline.problem.seed import Seed
from pipeline.store.basis_file import Bases


class MethodScores(NamedTuple):
    """The scores of a method on one seed."""

    accuracy: Matrix64  # (T, T)
    right: npt.NDArray[np.bool_]  # (n,) whether each test image of a known class is right after the last task
    unknown: list[LabelSpaceScores] | None  # after each task, if the method may answer `unknown`


def run_methods(
    problem: LabelledProblem, bases: Bases, methods: Sequence[str], for_each: Callable[..., list[list[Any]]]
) -> dict[str, Sequence[MethodScores | str]]:
    """Return each method's scores on every seed; if it fails on a seed, a one-line reason instead.

    ``for_each`` runs the items of every seed: `extraction.executor.Executor.for_each_item`.
    """

    def open_seed(seed_index: int) -> Seed:
        return problem.seed(seed_index, bases.basis(seed_index))

    seeds, D = len(problem.target.seeds), bases.recipe.D
    by_seed = for_each(open_seed, partial(run_method, problem), seeds, methods, D=D)
    return dict(zip(methods, zip(*by_seed, strict=True), strict=True))


def run_method(problem: LabelledProblem, seed_index: int, seed: Seed, name: str) -> MethodScores | str:
    """Return a method's scores on one seed, or a one-line reason if it fails."""
    method = compared_method(name)
    if method.group == "ceiling":
        seed = ceiling_seed(problem, seed_index, seed)
    try:
        unknown = None
        if method.answers is None:
            predictions = method.run(seed)
        else:
            answers = method.answers(seed)
            predictions = [answer.classes() for answer in answers]
            unknown = problem.unknown_scores(seed_index, answers)
        right = problem.right(seed_index, predictions[-1])
        return MethodScores(problem.accuracies(seed_index, predictions), right, unknown)
    except StoreError:
        raise  # a damaged store is not the method's fault
    except RefereeError as error:
        return one_line(error)


def covariance_of_methods(
    problem: LabelledProblem, scored: Mapping[str, Sequence[Any]], methods: Iterable[str]
) -> dict[str, dict[str, float]]:
    """Return the covariance of the methods' final accuracies over test images, in percent squared.

    ``scored`` maps each method to one `MethodScores` per seed.
    """
    target, names = problem.target, list(methods)
    test = [target.test_index(seed) for seed in target.seeds]
    right = [np.stack([scored[name][s].right for name in names]) for s in range(len(target.seeds))]
    matrix = 1e4 * image_covariance(right, [target.tasks.task[rows] for rows in test], test)
    return {
        name: dict(zip(names, np.round(row, 6).tolist(), strict=True)) for name, row in zip(names, matrix, strict=True)
    }
