"""Stage `sensitivity@PROBLEM`: accuracy over D and sigma, and which of their values to choose without target labels.

Under the variant and options of `method`. Writes results/SUITE/problems/PROBLEM/sensitivity/{D,sigma}.csv: mean A_T and
its standard deviation over the seeds at every value of the section `sensitivity`.

Every value of the section `select` is also scored without a label of the target; labels are read afterwards, to say how
good the choice was. Writes results/SUITE/problems/PROBLEM/selection/values.csv (A_T and every label-free score of each
value, means over the seeds; without the scores that some value does not have) and choices.csv (what each score chooses,
its regret and its rank correlation).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import paths
from pipeline.comparison.selection import SCORES, choices
from pipeline.comparison.sweep import Outcome, Run, outcomes_of, runs_over
from pipeline.extraction.executor import for_each_item
from pipeline.params import Params
from pipeline.problem.method_options import method_options
from pipeline.report.figures import percent
from pipeline.report.made_with import made_with
from pipeline.stage import Context, stage
from pipeline.store.basis_file import BasisRecipe
from pipeline.write_aside import write_aside, write_json

Outcomes = Mapping[Run, Sequence[Outcome]]  # of every seed


def settings(params: Params, name: str) -> dict[str, Any]:
    """Return the values of D, sigma and options, and what the accuracies are shown with."""
    sections = {"data", "language", "views", "vision"}
    return {
        "sensitivity": params.sensitivity.model_dump(),
        "select": params.select.model_dump(),
        "made_with": made_with(params.model_dump(mode="json", include=sections)),
        "problem": params.problems[name].model_dump(exclude_none=True),
    }


@stage(
    per=("swept",),
    reads=("data", "language", "method", "problems", "rff", "select", "sensitivity", "swept", "views", "vision"),
    settings=settings,
)
def sensitivity(context: Context, name: str) -> str:
    """Write results/SUITE/problems/PROBLEM/sensitivity and …/selection."""
    params = context.params
    problem = context.project.labelled_problem(name)
    method, swept, select = params.method, params.sensitivity, params.select
    over = partial(runs_over, problem, params.rff.model_dump(), method.variant, method.options)
    shown = list(over({"D": sorted(set(swept.D)), "sigma": sorted(set(swept.sigma))}))
    chosen = list(over({"D": select.D, "sigma": select.sigma, **select.options}))
    if method_options(method.variant, method.options).predictor != "adapted":
        chosen = []  # nothing to choose for: the variant does not adapt
    scored = {one for _, _, one in chosen}
    bases: dict[BasisRecipe, list[Run]] = {}  # the runs of a basis share its features
    for one in dict.fromkeys(one for _, _, one in [*shown, *chosen]):
        bases.setdefault(one.recipe, []).append(one)
    widest, seeds = max(bases, key=lambda recipe: recipe.D), problem.target.seeds
    outcomes = for_each_item(
        lambda index: problem.seed(index, widest.draw(index)),
        partial(outcomes_of, problem, scored, recipes=list(bases)),
        len(seeds),
        list(bases.values()),
        D=widest.D,
        workers=params.runtime.workers,
    )
    of_seed = [[outcome for basis in seed for outcome in basis] for seed in outcomes]
    runs = [one for basis in bases.values() for one in basis]
    by_run = dict(zip(runs, zip(*of_seed, strict=True), strict=True))
    n = len(problem.target.test_index(seeds[0]))
    of = f"n = {n} test images, {len(seeds)} seeds, {method.variant}"
    with write_aside(paths.sensitivity(context.suite, name)) as aside:
        aside.mkdir()
        write_json(aside / "made_with.json", made_with(params.selected()))
        for setting, other in (("D", f"sigma={params.rff.sigma:g}"), ("sigma", f"D={params.rff.D}")):
            write_sweep(aside / f"{setting}.csv", setting, shown, by_run, f"{of}, {other}")
    with write_aside(paths.selection(context.suite, name)) as aside:
        aside.mkdir()
        means = {one: mean_outcome(by_run[one]) for one in scored}
        write_values(aside / "values.csv", chosen, means, of)
        write_choices(aside / "choices.csv", chosen, means)
    return f"{len(shown)} values of D and sigma, {len(chosen)} to choose from, {len(runs)} runs"


def mean_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the mean over the seeds."""
    scores = {name: float(np.mean([one.scores[name] for one in outcomes])) for name in SCORES}
    return Outcome(float(np.mean([one.accuracy for one in outcomes])), scores)


Settings = Sequence[tuple[str, Any, Run]]  # setting, value, run


def write_sweep(path: Path, swept: str, settings: Settings, outcomes: Outcomes, of: str) -> None:
    """Write a table: what the numbers are of, the value, mean A_T and its deviation over the seeds, in percent."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("of", swept, "A_T", "sd"))
        for setting, value, one in settings:
            if setting == swept:
                scores = [outcome.accuracy for outcome in outcomes[one]]
                writer.writerow((of, value, percent(np.mean(scores)), percent(np.std(scores))))


def write_values(path: Path, settings: Settings, means: Mapping[Run, Outcome], of: str) -> None:
    """Write what the numbers are of, then A_T in percent and the label-free scores of every value."""
    defined = [name for name in SCORES if np.isfinite([m.scores[name] for m in means.values()]).all()]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("of", "setting", "value", "A_T", *defined))
        for setting, value, one in settings:
            mean = means[one]
            written = (f"{mean.scores[name]:.6g}" for name in defined)
            writer.writerow((of, setting, value, percent(mean.accuracy), *written))


def write_choices(path: Path, settings: Settings, means: Mapping[Run, Outcome]) -> None:
    """Write what each score chooses for each setting, regret in percentage points."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("setting", "score", "chosen", "best", "regret", "rank_correlation"))
        for setting in dict.fromkeys(setting for setting, _, _ in settings):
            tried = {value: means[one] for name, value, one in settings if name == setting}
            for choice in choices(
                {value: mean.accuracy for value, mean in tried.items()},
                {value: mean.scores for value, mean in tried.items()},
            ):
                rank, regret = choice.rank_correlation, percent(choice.regret)
                written = "" if np.isnan(rank) else f"{rank:.2f}"  # empty: A_T is constant
                row = (setting, choice.score, choice.chosen, choice.best, regret, written)
                writer.writerow(row)
