"""Stage `sensitivity@PROBLEM`: accuracy over D and over sigma, mean and standard deviation over the seeds.

Under the variant and options of `method`; one pass at the largest D serves all. Writes
results/SUITE/problems/PROBLEM/sensitivity/{D,sigma}.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from pipeline import paths
from pipeline.comparison.sweep import predictions_over_D, predictions_over_sigma
from pipeline.extraction.executor import seeds_here
from pipeline.method.continual_metrics import final_accuracy
from pipeline.method.rows import Labels
from pipeline.problem.bases import basis_recipe
from pipeline.problem.method_options import method_options
from pipeline.problem.problem import LabelledProblem
from pipeline.report.figures import percent
from pipeline.report.made_with import made_with
from pipeline.stage import Context, stage
from pipeline.write_aside import write_aside, write_json

Value = TypeVar("Value", int, float)


@stage(
    per=("swept",),
    reads=(
        "data",
        "language",
        "method",
        "problems",
        "rff",
        "sensitivity",
        "swept",
        "views",
        "vision",
    ),
)
def sensitivity(context: Context, name: str) -> str:
    """Write results/SUITE/problems/PROBLEM/sensitivity."""
    params = context.params
    options = method_options(params.method.variant, params.method.options)
    problem = context.project.labelled_problem(name)
    widths, sigmas = sorted(set(params.sensitivity.D)), sorted(set(params.sensitivity.sigma))
    rff = params.rff.model_dump()
    widest = basis_recipe(problem.source, **{**rff, "D": widths[-1]})
    recipes = {sigma: basis_recipe(problem.source, **{**rff, "sigma": sigma}) for sigma in sigmas}

    def over_D(index: int) -> dict[int, float]:  # noqa: N802  the paper's name
        seed = problem.seed(index, widest.draw(index))
        return final_accuracies(problem, index, predictions_over_D(seed, widths, options))

    def over_sigma(index: int) -> dict[float, float]:
        seed = problem.seed(index, recipes[sigmas[0]].draw(index))
        predictions = predictions_over_sigma(
            seed, sigmas, options, lambda sigma: recipes[sigma].draw(index)
        )
        return final_accuracies(problem, index, predictions)

    seeds, workers = len(problem.target.seeds), params.runtime.workers
    made = made_with(params.selected())
    n = len(problem.target.test_index(problem.target.seeds[0]))
    of = f"n = {n} test images, {seeds} seeds, {params.method.variant}"
    with write_aside(paths.sensitivity(context.suite, name)) as aside:
        aside.mkdir()
        write_json(aside / "made_with.json", made)
        of_D = seeds_here(over_D, seeds, D=widths[-1], workers=workers)
        write_sweep(aside / "D.csv", "D", of_D, f"{of}, sigma={params.rff.sigma:g}")
        of_sigma = seeds_here(over_sigma, seeds, D=params.rff.D, workers=workers)
        write_sweep(aside / "sigma.csv", "sigma", of_sigma, f"{of}, D={params.rff.D}")
    return f"{len(widths)} values of D, {len(sigmas)} of sigma"


def final_accuracies(
    problem: LabelledProblem, index: int, predictions: Mapping[Value, Sequence[Labels]]
) -> dict[Value, float]:
    """Return A_T of a seed's predictions for each value."""
    return {
        value: final_accuracy(problem.accuracies(index, after))
        for value, after in predictions.items()
    }


def write_sweep(path: Path, name: str, seeds: Sequence[Mapping[Value, float]], of: str) -> None:
    """Write a table: what the numbers are of, the value, mean A_T and its deviation over the seeds, in percent."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("of", name, "A_T", "sd"))
        for value in seeds[0]:
            scores = [seed[value] for seed in seeds]
            writer.writerow((of, value, percent(np.mean(scores)), percent(np.std(scores))))
