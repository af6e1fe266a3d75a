"""Stage `select@PROBLEM`: which values of D, sigma and the method's options to choose without target labels.

Every value of the section `select` is scored without a label of the target: those of D and sigma by the stages
`sensitivity_D` and `sensitivity_sigma`, those of options here. Labels are read afterwards, to say how good the choice
was.

Writes results/SUITE/problems/PROBLEM/selection/values.csv (A_T and every label-free score of each value, means over the
seeds; without the scores that some value does not have), choices.csv (what each score chooses, its regret and its rank
correlation) and made_with.json.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import paths
from pipeline.comparison.selection import SCORES, choices
from pipeline.comparison.sweep import Outcome, adapts, mean_outcome, runs_over, swept_outcomes
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
    """Return the values of options, and what the accuracies are shown with."""
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
    tried: dict[str, dict[Any, Outcome]] = {}  # by setting and value, means over the seeds
    for setting in ("D", "sigma"):
        for one in read_scored_values(context.suite, name, setting).values:
            tried.setdefault(setting, {})[one.value] = Outcome(one.accuracy, one.scores)
    if adapts(method.variant, method.options):
        runs = runs_over(problem, params.rff.model_dump(), method.variant, method.options, params.select.options)
        every, here = runs.values(), Executor(workers=params.runtime.workers).for_each_item
        outcomes = swept_outcomes(problem, every, every, here)
        for (option, value), run in runs.items():
            shown = ", ".join(value) if isinstance(value, tuple) else value  # views
            tried.setdefault(option, {})[shown] = mean_outcome(outcomes[run])
    with write_aside(paths.selection(context.suite, name)) as aside:
        aside.mkdir()
        write_values(aside / "values.csv", tried, f"{problem.size()}, {method.variant}")
        write_choices(aside / "choices.csv", tried)
        write_json(aside / "made_with.json", made_with(params.selected()))
    return f"{counted(sum(map(len, tried.values())), 'value')} of {', '.join(tried) or 'nothing'}"


def write_values(path: Path, tried: Mapping[str, Mapping[Any, Outcome]], of: str) -> None:
    """Write what the numbers are of, then A_T in percent and the label-free scores of every value."""
    rows = [(setting, *one) for setting, by_value in tried.items() for one in by_value.items()]
    defined = [name for name in SCORES if all(name in outcome.scores for _, _, outcome in rows)]
    lines = [
        (of, setting, value, percent(one.accuracy), *(f"{one.scores[name]:.6g}" for name in defined))
        for setting, value, one in rows
    ]
    write_table(path, (*VALUES, *defined), lines)


def write_choices(path: Path, tried: Mapping[str, Mapping[Any, Outcome]]) -> None:
    """Write what each score chooses for each setting, regret in percentage points."""
    lines = []
    for setting, by_value in tried.items():
        accuracy = {value: one.accuracy for value, one in by_value.items()}
        for choice in choices(accuracy, {value: one.scores for value, one in by_value.items()}):
            rank = "" if np.isnan(choice.rank_correlation) else f"{choice.rank_correlation:.2f}"  # A_T is constant
            lines.append((setting, choice.score, choice.chosen, choice.best, percent(choice.regret), rank))
    write_table(path, list(CHOICES), lines)
