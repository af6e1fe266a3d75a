"""Stage `compare@PROBLEM`: every method of `compare.methods` on the same cached features, in one process.

Reads the caches of both domains and the target's labels, to score with. Writes
results/SUITE/problems/PROBLEM/comparison.json: the parameters they were made with, the number of test images, one entry
per method, in percent, mean and standard deviation over the seeds, and the covariance of their final accuracies over
the images, from which the error of a difference follows (not which image is right: that would tell labels).

A method that cannot run on a problem (`paper` where a class has too little weight for eq. 17) does not end the stage:
its entry holds the reason instead of figures. The stage fails where no method can run.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline import paths
from pipeline.comparison.registry import compared_method, seen_by
from pipeline.errors import InputError, RefereeError, StoreError, counted, one_line
from pipeline.extraction.executor import Executor, for_each_item
from pipeline.method.continual_metrics import image_covariance
from pipeline.method.label_space_measures import LabelSpaceScores
from pipeline.method.rows import RowReduction, as_array, take
from pipeline.params import Params
from pipeline.problem.problem import LabelledProblem
from pipeline.problem.seed import Seed
from pipeline.report.made_with import made_with, shown_with
from pipeline.report.problem_figures import accuracy_figures, label_space_figures
from pipeline.stage import Context, stage
from pipeline.store.basis_file import Bases, read_bases
from pipeline.write_aside import write_json

Matrix = npt.NDArray[np.float64]


class Scored(NamedTuple):
    """What a method reaches on one seed."""

    accuracy: Matrix  # (T, T)
    right: npt.NDArray[np.bool_]  # (n,), about each test image of a known class after the last task
    unknown: list[LabelSpaceScores] | None  # after each task, of methods that may answer `unknown`


def settings(params: Params, name: str) -> dict[str, Any]:
    """Return the methods, and what their figures are shown with."""
    return {"methods": params.compare.methods, **shown_with(params, name)}


@stage(
    per=("problems",), reads=("compare", "data", "language", "problems", "rff", "views", "vision"), settings=settings
)
def compare(context: Context, name: str) -> str:
    """Write results/SUITE/problems/PROBLEM/comparison.json."""
    params = context.params
    bases = read_bases(paths.bases(params.problems[name].source))
    with context.executor(params.problems[name].target) as executor:
        problem = context.project.labelled_problem(name, lazy=executor.lazy)
        methods = {
            method: found
            for method in params.compare.methods
            if (found := compared_method(method)).answers is None or problem.has_unknown
        }
        seeds = run_methods(problem, bases, list(methods), executor)
    entries = {
        method: {
            "title": compared.title,
            "group": compared.group,
            "source_samples": compared.source_samples,
            **figures_or_reason([outcome[method] for outcome in seeds], problem.target.seeds),
        }
        for method, compared in methods.items()
    }
    failed = {method: entry["failed"] for method, entry in entries.items() if "failed" in entry}
    if len(failed) == len(entries):
        reasons = "; ".join(f"{method}: {reason}" for method, reason in failed.items())
        raise InputError(f"compare {name}: no method could run ({reasons})")
    final = {method: entry["A_T"] for method, entry in entries.items() if method not in failed}
    content = {
        "made_with": made_with(params.selected()) | bases.recipe.asked(),
        "test_images": max(len(problem.target.test_index(s)) for s in problem.target.seeds),
        "methods": entries,
        "image_covariance": covariance_of_methods(problem, seeds, final),
    }
    write_json(paths.comparison(context.suite, name), content)
    for method, reason in failed.items():
        sys.stderr.write(f"compare {name}: {method} failed: {reason}\n")
    final = {m: a_t for m, a_t in final.items() if entries[m]["group"] != "ceiling"}
    if not final:
        return "no method, the ceiling alone"
    best = max(final, key=final.__getitem__)
    return f"{counted(len(methods), 'method')}, largest A_T {final[best]} ({best})"


def run_methods(
    problem: LabelledProblem, bases: Bases, methods: Sequence[str], executor: Executor
) -> list[dict[str, Scored | str]]:
    """Return how every method scores on each seed: on a cluster seeds run side by side, here methods do."""
    seeds, D = len(problem.target.seeds), bases.recipe.D
    if executor.cluster is not None:  # a method sees all rows at once: whole seeds are handed out
        run = partial(run_seed, problem=problem, bases=bases, methods=methods)
        return executor.for_each_seed(run, seeds, images=0, views=0, D=D)
    scored = for_each_item(
        lambda index: problem.seed(index, bases.basis(index)),
        partial(run_method, problem),
        seeds,
        methods,
        D=D,
        workers=executor.workers,
    )
    return [dict(zip(methods, of_seed, strict=True)) for of_seed in scored]


def run_seed(
    index: int,
    reduce_rows: RowReduction,  # noqa: ARG001  methods have all rows in memory
    *,
    problem: LabelledProblem,
    bases: Bases,
    methods: Sequence[str],
) -> dict[str, Scored | str]:
    """Return how every method scores on one seed, or in one line why it does not."""
    seed = problem.seed(index, bases.basis(index))
    return {name: run_method(problem, index, seed, name) for name in methods}


def run_method(problem: LabelledProblem, index: int, own: Seed, name: str) -> Scored | str:
    """Return how a method scores on one seed, or in one line why it does not."""
    method = compared_method(name)
    seen = seen_by(method, problem)
    seed = own if seen is problem else ceiling_seed(seen, index, own)
    try:
        unknown = None
        if method.answers is None:
            predictions = method.run(seed)
        else:
            answers = method.answers(seed)
            predictions = [one.classes() for one in answers]
            unknown = problem.unknown_scores(index, answers)
        accuracies = problem.accuracies(index, predictions)
        return Scored(accuracies, problem.right(index, predictions[-1]), unknown)
    except StoreError:
        raise  # a damaged store is no method's fault
    except RefereeError as error:
        return one_line(error)


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


def ceiling_seed(seen: LabelledProblem, index: int, own: Seed) -> Seed:
    """Return the seed at ``index`` of target → target, given that of the problem."""
    return CeilingSeed(own.number, own.basis, seen.seed(index, own.basis).source, own.target, own=own)


def figures_or_reason(outcomes: Sequence[Scored | str], seeds: Sequence[int]) -> dict[str, Any]:
    """Return a method's figures over all seeds; where it failed on one, the first reason."""
    for seed, outcome in zip(seeds, outcomes, strict=True):
        if isinstance(outcome, str):
            return {"failed": f"seed {seed}: {outcome}"}
    scored = [one for one in outcomes if not isinstance(one, str)]
    figures = accuracy_figures([one.accuracy for one in scored])
    unknown = [one.unknown for one in scored if one.unknown is not None]
    return {**figures, "label_space": label_space_figures(unknown)} if unknown else figures


def covariance_of_methods(
    problem: LabelledProblem, seeds: Sequence[Mapping[str, Any]], methods: Iterable[str]
) -> dict[str, dict[str, float]]:
    """Return the covariance, over test images, of the final accuracies of methods that ran, in percent squared."""
    target, names = problem.target, list(methods)
    test = [target.test_index(seed) for seed in target.seeds]
    right = [np.stack([outcome[name].right for name in names]) for outcome in seeds]
    matrix = 1e4 * image_covariance(right, [target.tasks.task[rows] for rows in test], test)
    return {
        name: dict(zip(names, np.round(row, 6).tolist(), strict=True)) for name, row in zip(names, matrix, strict=True)
    }
