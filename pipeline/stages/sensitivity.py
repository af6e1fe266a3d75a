"""Stage `sensitivity@PROBLEM`: accuracy over D and over sigma, mean and standard deviation over the seeds.

Under the variant and options of `method`; one pass serves all D. Writes results/sensitivity/PROBLEM/{D,sigma}.csv.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from pipeline.comparison.sweep import predictions_over_D, predictions_over_sigma
from pipeline.errors import exits_cleanly
from pipeline.execution.seeds import for_each_seed
from pipeline.method.class_statistics import Labels
from pipeline.method.continual_metrics import final_accuracy
from pipeline.params import load_params, named
from pipeline.report.problem_tables import percent
from pipeline.stages import places
from pipeline.stages.basis import recipe
from pipeline.stages.method_options import method_options
from pipeline.stages.seed_problems import ProblemCaches, read_problem
from pipeline.write_aside import write_aside

Value = TypeVar("Value", int, float)


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write results/sensitivity/PROBLEM."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.stages.sensitivity", description=__doc__
    )
    parser.add_argument("problem", metavar="PROBLEM", help="a key of `swept` in params.yaml")
    name = parser.parse_args(argv).problem
    params = load_params()
    named("swept", params.swept, name)
    options = method_options(params.method)
    widths, sigmas = sorted(set(params.sensitivity.D)), sorted(set(params.sensitivity.sigma))
    caches = read_problem(params, name)
    x, d_clip = caches.source_views["original"], caches.source_clip.shape[1]
    wide = recipe(
        params.rff.model_copy(update={"D": widths[-1], "bases": 1}), x, caches.source_tasks, d_clip
    )
    bases = {
        sigma: recipe(
            params.rff.model_copy(update={"sigma": sigma}), x, caches.source_tasks, d_clip
        )
        for sigma in sigmas
    }

    def over_D(index: int) -> dict[int, float]:  # noqa: N802  the paper's name
        seen = caches.of_seed(index, wide.draw(index))
        return _scored(caches, index, predictions_over_D(seen, widths, options))

    def over_sigma(index: int) -> dict[float, float]:
        seen = caches.of_seed(index, bases[sigmas[0]].draw(index))
        return _scored(
            caches,
            index,
            predictions_over_sigma(seen, sigmas, options, lambda sigma: bases[sigma].draw(index)),
        )

    seeds, workers = len(caches.seeds), params.runtime.workers
    with write_aside(places.sensitivity(name)) as aside:
        aside.mkdir()
        of_D = for_each_seed(over_D, seeds, D=widths[-1], workers=workers)
        _write(aside / "D.csv", "D", of_D)
        D = params.rff.D * params.rff.bases
        _write(aside / "sigma.csv", "sigma", for_each_seed(over_sigma, seeds, D=D, workers=workers))
    sys.stdout.write(f"sensitivity {name}: {len(widths)} values of D, {len(sigmas)} of sigma\n")
    return 0


def _scored(
    caches: ProblemCaches, index: int, predicted: Mapping[Value, Sequence[Labels]]
) -> dict[Value, float]:
    """Return A_T of a seed's predictions for each value."""
    return {
        value: final_accuracy(caches.accuracies(index, after)) for value, after in predicted.items()
    }


def _write(path: Path, what: str, seeds: Sequence[Mapping[Value, float]]) -> None:
    """Write a table: the value, mean A_T and its standard deviation over the seeds, in percent."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((what, "A_T", "sd"))
        for value in seeds[0]:
            scores = [seed[value] for seed in seeds]
            writer.writerow((value, percent(np.mean(scores)), percent(np.std(scores))))


if __name__ == "__main__":
    sys.exit(main())
