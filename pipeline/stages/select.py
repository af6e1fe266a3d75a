"""Stage `select@PROBLEM`: choose values of D, sigma and the method's options without target labels.

Every value in the section `select` is scored without target labels: values of D and sigma by the stages
`sensitivity_D` and `sensitivity_sigma`, values of options here. Labels are read afterwards, only to measure how good
the choice was.

Writes to results/SUITE/problems/PROBLEM/selection: values.csv (A_T and the label-free scores of each value, means over
the seeds; a score is left out if any value lacks it), choices.csv (the choice, regret and rank correlation of each
score) and made_with.json.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import paths
from pipeline.comparison.selection import SCORES, choices
from pipeline.comparison.sweep import Outcome, adapts, mean_outcome, runs_by_setting, swept_outcomes
from pipeline.config.params import Params
from pipeline.datasets.checked_csv import write_table
from pipeline.errors import counted
from pipeline.extraction.executor import Executor
from pipeline.report.made_with import made_with
from pipeline.report.problem_figures import percent
from pipeline.report.results import CHOICES, VALUES, read_scored_values
from pipeline.stage import Context, figure_settings, stage
from pipeline.write_aside import write_aside, write_json


def settings(params: Params, name: str) -> dict[str, Any]:
    """Return the values of options to try, and the settings that are shown with the accuracies."""
    return {"options": params.select.options, **figure_settings(params, name)}


@stage(
    per=("swept",),
    reads=("data", "language", "method", "problems", "rff", "select", "swept", "views", "vision"),
    settings=settings,
)
def select(context: Context, name: str) -> str:
    """Write results/SUITE/problems/PROBLEM/selection."""
    params, method = context.params, context.params.method
    problem = context.project.labelled_problem(name)
    outcomes: dict[str, dict[Any, Outcome]] = {}  # by setting and value, means over the seeds
    for setting in ("D", "sigma"):
        for entry in read_scored_values(context.suite, name, setting).values:
            outcomes.setdefault(setting, {})[entry.value] = Outcome(entry.accuracy, entry.scores)
    if adapts(method.variant, method.options):
        runs = runs_by_setting(problem, params.rff.model_dump(), method.variant, method.options, params.select.options)
        for_each_item = Executor(workers=params.runtime.workers).for_each_item
        by_run = swept_outcomes(problem, runs.values(), runs.values(), for_each_item)
        for (option, value), run in runs.items():
            label = ", ".join(value) if isinstance(value, tuple) else value  # a tuple holds views
            outcomes.setdefault(option, {})[label] = mean_outcome(by_run[run])
    with write_aside(paths.selection(context.suite, name)) as aside:
        aside.mkdir()
        write_values(aside / "values.csv", outcomes, f"{problem.size()}, {method.variant}")
        write_choices(aside / "choices.csv", outcomes)
        write_json(aside / "made_with.json", made_with(params.selected()))
    return f"{counted(sum(map(len, outcomes.values())), 'value')} of {', '.join(outcomes) or 'nothing'}"


def write_values(path: Path, outcomes: Mapping[str, Mapping[Any, Outcome]], caption: str) -> None:
    """Write a caption, A_T in percent and the label-free scores of every value."""
    rows = [(setting, *item) for setting, by_value in outcomes.items() for item in by_value.items()]
    defined = [name for name in SCORES if all(name in outcome.scores for _, _, outcome in rows)]
    lines = [
        (caption, setting, value, percent(outcome.accuracy), *(f"{outcome.scores[name]:.6g}" for name in defined))
        for setting, value, outcome in rows
    ]
    write_table(path, (*VALUES, *defined), lines)


def write_choices(path: Path, outcomes: Mapping[str, Mapping[Any, Outcome]]) -> None:
    """Write the value that each score chooses for each setting, with its regret in percentage points."""
    lines = []
    for setting, by_value in outcomes.items():
        accuracy = {value: outcome.accuracy for value, outcome in by_value.items()}
        for choice in choices(accuracy, {value: outcome.scores for value, outcome in by_value.items()}):
            rank = "" if np.isnan(choice.rank_correlation) else f"{choice.rank_correlation:.2f}"  # A_T is constant
            lines.append((setting, choice.score, choice.chosen, choice.best, percent(choice.regret), rank))
    write_table(path, list(CHOICES), lines)
