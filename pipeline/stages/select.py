"""Stage `select@PROBLEM`: which values of D, sigma and the method's options to choose without target labels.

Every value of the section `select` is scored without a label of the target: those of D and sigma by the stages
`sensitivity_D` and `sensitivity_sigma`, those of options here. Labels are read afterwards, to say how good the choice
was.

Writes results/SUITE/problems/PROBLEM/selection/values.csv (A_T and every label-free score of each value, means over the
seeds; without the scores that some value does not have), choices.csv (what each score chooses, its regret and its rank
correlation) and made_with.json.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import paths
from pipeline.comparison.selection import SCORES, choices
from pipeline.comparison.sweep import Outcome, adapts, mean_outcome, runs_over, swept_outcomes
from pipeline.errors import counted
from pipeline.extraction.executor import for_each_item
from pipeline.params import Params
from pipeline.problem.problem import LabelledProblem
from pipeline.report.made_with import made_with, shown_with
from pipeline.report.problem_figures import percent
from pipeline.report.results import read_scored_values
from pipeline.stage import Context, stage
from pipeline.write_aside import write_aside, write_json

Tried = dict[Any, Outcome]  # by value, means over the seeds


def settings(params: Params, name: str) -> dict[str, Any]:
    """Return the values of options, and what the accuracies are shown with."""
    return {"options": params.select.options, **shown_with(params, name)}


@stage(
    per=("swept",),
    reads=("data", "language", "method", "problems", "rff", "select", "swept", "views", "vision"),
    settings=settings,
)
def select(context: Context, name: str) -> str:
    """Write results/SUITE/problems/PROBLEM/selection."""
    params, method = context.params, context.params.method
    problem = context.project.labelled_problem(name)
    by_setting: dict[str, Tried] = {}
    for setting in ("D", "sigma"):
        scored = read_scored_values(context.suite, name, setting).values
        by_setting[setting] = {one.value: Outcome(one.accuracy, one.scores) for one in scored}
    if adapts(method.variant, method.options):
        by_setting |= options_tried(context, problem)
    by_setting = {setting: tried for setting, tried in by_setting.items() if tried}
    with write_aside(paths.selection(context.suite, name)) as aside:
        aside.mkdir()
        write_values(aside / "values.csv", by_setting, f"{problem.size()}, {method.variant}")
        write_choices(aside / "choices.csv", by_setting)
        write_json(aside / "made_with.json", made_with(params.selected()))
    return f"{counted(sum(map(len, by_setting.values())), 'value')} of {', '.join(by_setting) or 'nothing'}"


def options_tried(context: Context, problem: LabelledProblem) -> dict[str, Tried]:
    """Run the method with every value of an option of `select.options`, one option at a time."""
    params, method = context.params, context.params.method
    runs = list(runs_over(problem, params.rff.model_dump(), method.variant, method.options, params.select.options))
    every = [run for _, _, run in runs]
    outcomes = swept_outcomes(problem, every, every, partial(for_each_item, workers=params.runtime.workers))
    tried: dict[str, Tried] = {}
    for option, value, run in runs:
        tried.setdefault(option, {})[value] = mean_outcome(outcomes[run])
    return tried


def write_values(path: Path, by_setting: Mapping[str, Tried], of: str) -> None:
    """Write what the numbers are of, then A_T in percent and the label-free scores of every value."""
    rows = [(setting, *one) for setting, tried in by_setting.items() for one in tried.items()]
    defined = [name for name in SCORES if all(name in outcome.scores for _, _, outcome in rows)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("of", "setting", "value", "A_T", *defined))
        for setting, value, outcome in rows:
            written = (f"{outcome.scores[name]:.6g}" for name in defined)
            writer.writerow((of, setting, value, percent(outcome.accuracy), *written))


def write_choices(path: Path, by_setting: Mapping[str, Tried]) -> None:
    """Write what each score chooses for each setting, regret in percentage points."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("setting", "score", "chosen", "best", "regret", "rank_correlation"))
        for setting, tried in by_setting.items():
            accuracy = {value: outcome.accuracy for value, outcome in tried.items()}
            for choice in choices(accuracy, {value: outcome.scores for value, outcome in tried.items()}):
                rank = "" if np.isnan(choice.rank_correlation) else f"{choice.rank_correlation:.2f}"  # A_T is constant
                writer.writerow((setting, choice.score, choice.chosen, choice.best, percent(choice.regret), rank))
