"""Stages `sensitivity_D@PROBLEM` and `sensitivity_sigma@PROBLEM`: accuracy over values of one of the two.

They are two stages of the graph, so that a change of sigma does not run the values of sigma again, nor one of D those
of D. Each runs the values of the sections `sensitivity` and `select` under the variant and options of `method`.

Writes results/SUITE/problems/PROBLEM/sensitivity/SETTING.csv: mean A_T and its standard deviation over the seeds at
every value of `sensitivity`; and SETTING.json, for the stage `select`: A_T and the label-free scores of every value of
`select`.
"""

from functools import partial
from typing import Any

import numpy as np

from pipeline import paths
from pipeline.comparison.sweep import Run, adapts, mean_outcome, runs_over, swept_outcomes
from pipeline.config.params import Params
from pipeline.datasets.checked_csv import write_table
from pipeline.errors import counted
from pipeline.extraction.executor import Executor
from pipeline.report.made_with import made_with
from pipeline.report.problem_figures import percent
from pipeline.stage import Context, figure_settings, stage
from pipeline.write_aside import write_aside, write_json


def settings(params: Params, name: str, setting: str) -> dict[str, Any]:
    """Return the values of D or sigma, and what the accuracies are shown with."""
    values = {"sensitivity": getattr(params.sensitivity, setting), "select": getattr(params.select, setting)}
    return {**values, **figure_settings(params, name)}


@stage(
    per=("swept", "sensitivity"),
    reads=("data", "language", "method", "problems", "rff", "select", "sensitivity", "swept", "views", "vision"),
    settings=settings,
)
def sensitivity(context: Context, name: str, setting: str) -> str:
    """Write results/SUITE/problems/PROBLEM/sensitivity/SETTING.csv and SETTING.json."""
    params, method = context.params, context.params.method
    problem = context.project.labelled_problem(name)
    over = partial(runs_over, problem, params.rff.model_dump(), method.variant, method.options)
    shown, chosen = over({setting: sorted(set(context.settings["sensitivity"]))}), dict[tuple[str, Any], Run]()
    if adapts(method.variant, method.options):  # otherwise there is nothing to choose for
        chosen = over({setting: context.settings["select"]})
    runs = [*shown.values(), *chosen.values()]
    outcomes = swept_outcomes(problem, runs, chosen.values(), Executor(workers=params.runtime.workers).for_each_item)
    other = f"sigma={params.rff.sigma:g}" if setting == "D" else f"D={params.rff.D}"
    of = f"{problem.size()}, {method.variant}, {other}"
    rows = []
    for (_, value), run in shown.items():
        accuracies = [one.accuracy for one in outcomes[run]]
        rows.append((of, value, percent(np.mean(accuracies)), percent(np.std(accuracies))))
    folder = paths.sensitivity(context.suite, name)
    with write_aside(folder / f"{setting}.csv") as aside:
        write_table(aside, ("of", setting, "A_T", "sd"), rows)
    parameters = {key: value for key, value in made_with(params.selected()).items() if key != f"rff.{setting}"}
    means = {value: mean_outcome(outcomes[run]) for (_, value), run in chosen.items()}
    scored = [{"value": value, "accuracy": one.accuracy, "scores": one.scores} for value, one in means.items()]
    write_json(folder / f"{setting}.json", {"made_with": parameters, "values": scored})
    return f"{counted(len(shown), 'value')} of {setting}, {len(chosen)} to choose from"
