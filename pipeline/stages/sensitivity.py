"""Stages `sensitivity_D@PROBLEM` and `sensitivity_sigma@PROBLEM`: measure accuracy over values of D or sigma.

The graph has two stages, so that changing rff.sigma does not repeat the values of sigma, nor changing rff.D those of D.
Each runs the values in the sections `sensitivity` and `select` with the variant and options of `method`.

Writes results/SUITE/problems/PROBLEM/sensitivity/SETTING.csv: the mean of A_T and its standard deviation over the seeds
for every value in `sensitivity`. For the stage `select` it also writes SETTING.json: A_T and the label-free scores of
every value in `select`.
"""

from functools import partial
from typing import Any

import numpy as np

from pipeline import paths
from pipeline.comparison.sweep import Run, adapts, mean_outcome, runs_by_setting, swept_outcomes
from pipeline.config.params import Params
from pipeline.datasets.checked_csv import write_table
from pipeline.errors import counted
from pipeline.extraction.executor import Executor
from pipeline.report.made_with import made_with
from pipeline.report.problem_figures import percent
from pipeline.stage import Context, figure_settings, stage
from pipeline.write_aside import write_aside, write_json


def settings(params: Params, name: str, setting: str) -> dict[str, Any]:
    """Return the values of D or sigma, and the settings that are shown with the accuracies."""
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
    plan_runs = partial(runs_by_setting, problem, params.rff.model_dump(), method.variant, method.options)
    plotted = plan_runs({setting: sorted(set(context.settings["sensitivity"]))})
    candidates = dict[tuple[str, Any], Run]()
    if adapts(method.variant, method.options):  # otherwise `select` has nothing to choose
        candidates = plan_runs({setting: context.settings["select"]})
    for_each_item = Executor(workers=params.runtime.workers).for_each_item
    runs = [*plotted.values(), *candidates.values()]
    outcomes = swept_outcomes(problem, runs, candidates.values(), for_each_item)
    fixed = f"sigma={params.rff.sigma:g}" if setting == "D" else f"D={params.rff.D}"
    caption = f"{problem.size()}, {method.variant}, {fixed}"
    rows = []
    for (_, value), run in plotted.items():
        accuracies = [outcome.accuracy for outcome in outcomes[run]]
        rows.append((caption, value, percent(np.mean(accuracies)), percent(np.std(accuracies))))
    folder = paths.sensitivity(context.suite, name)
    with write_aside(folder / f"{setting}.csv") as aside:
        write_table(aside, ("of", setting, "A_T", "sd"), rows)
    parameters = {key: value for key, value in made_with(params.selected()).items() if key != f"rff.{setting}"}
    means = {value: mean_outcome(outcomes[run]) for (_, value), run in candidates.items()}
    entries = [{"value": value, "accuracy": mean.accuracy, "scores": mean.scores} for value, mean in means.items()]
    write_json(folder / f"{setting}.json", {"made_with": parameters, "values": entries})
    return f"{counted(len(plotted), 'value')} of {setting}, {len(candidates)} to choose from"
