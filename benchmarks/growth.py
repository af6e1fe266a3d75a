"""Measure, fit and draw how time and memory of the statistics grow with N, D, C and T (docs/growth.png).

`python -m benchmarks.growth` takes some minutes. Expected: linear in N, D² for accumulation, D³/3 for a solve, one
solve per task.
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.measure import Work, best_in_turns
from pipeline.method import kernel_lda
from pipeline.method.adaptation import Referee, adapt_tasks
from pipeline.method.class_statistics import zeros
from pipeline.method.kernel_lda import Regularisation
from pipeline.method.random_fourier_features import deviations, draw_basis
from pipeline.method.rows import TargetTask
from pipeline.method.source_model import fit_source
from pipeline.method.variants import VARIANTS
from pipeline.method.within_scatter import DenseScatter

PICTURE = Path(__file__).parents[1] / "docs" / "growth.png"
WIDTH = 256


def _shortest(work: Work, rounds: int = 3) -> float:
    return best_in_turns(work, rounds=rounds, warm_up=False)[0]


def accumulation(n: int, D: int) -> float:
    """Return the seconds to accumulate the statistics of n rows."""
    basis = draw_basis(WIDTH, D, 1e-4, "gamma", 0)
    x = np.random.default_rng(0).normal(size=(n, WIDTH)).astype(np.float32)
    labels = np.arange(n) % 10
    statistics = zeros(10, D)
    return _shortest(lambda: statistics.update(deviations(basis, x), labels))


def solve(D: int, C: int) -> float:
    """Return the seconds to solve for one classifier."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(C, D))
    rows = rng.normal(size=(D, D))
    covariance, shrinkage = np.asfortranarray(rows @ rows.T / D), Regularisation(0.1)

    def run() -> None:
        kernel_lda.solve(means, DenseScatter(covariance.copy(order="F"), 1, D), shrinkage, ridge=0.1)

    return _shortest(run)


def whole_problem(T: int, D: int = 500, per_class: int = 40, per_task: int = 2, rounds: int = 2) -> float:
    """Return the seconds of source fit and adaptation over T tasks."""
    rng = np.random.default_rng(0)
    C = per_task * T
    y = np.repeat(np.arange(C), per_class)
    x = (rng.normal(size=(C, WIDTH))[y] + rng.normal(size=(len(y), WIDTH))).astype(np.float32)
    tasks = np.split(np.arange(C), T)
    views = dict.fromkeys(("original", "zeros", "rand"), x)
    basis, options = draw_basis(WIDTH, D, 1e-4, "gamma", 0), VARIANTS["no_clip"]
    cosines = rng.normal(size=(len(y), C))
    masks = [(classes, np.isin(y, classes)) for classes in tasks]
    target = [TargetTask(dict.fromkeys(views, x[mask]), cosines[mask], classes=classes) for classes, mask in masks]

    def run() -> None:
        adapt_tasks(Referee(basis, options, 30.0), target, fit_source(basis, views, y, tasks, options))

    return _shortest(run, rounds)


def peak(T: int = 3, **sizes: int) -> float:
    """Return the peak memory of `whole_problem` including its rows, in bytes."""
    tracemalloc.start()
    whole_problem(T, **sizes, rounds=1)
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(largest)


# name, sizes, function that measures one size, unit
WIDTHS, TASKS, PEAK = (500, 1000, 2000, 3000, 4000), (2, 4, 8, 16), "bytes"
MEASURED: tuple[tuple[str, tuple[int, ...], Callable[[int], float], str], ...] = (
    ("N: accumulation, D=1000", (1000, 2000, 4000, 8000, 16000), lambda n: accumulation(n, 1000), "s"),
    ("D: accumulation, N=2000", WIDTHS, lambda D: accumulation(2000, D), "s"),
    ("D: one solve, C=30", WIDTHS, lambda D: solve(D, 30), "s"),
    ("C: one solve, D=1000", (5, 20, 80, 320), lambda C: solve(1000, C), "s"),
    ("T: a whole problem, D=500", TASKS, whole_problem, "s"),
    ("D: memory of a problem, N=240", WIDTHS[:4], lambda D: peak(D=D), PEAK),
    ("N: memory of a problem, D=500", (240, 960, 3840, 15360), lambda N: peak(per_class=N // 6), PEAK),
    ("C: memory of a problem, D=500, 5 rows per class", (6, 24, 96, 384),
     lambda C: peak(per_class=5, per_task=C // 3), PEAK),
    ("T: memory of a problem, D=500", TASKS, peak, PEAK),
)  # fmt: skip


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of log(value) over log(size), fitted to the larger half of the sizes."""
    half = min(len(sizes) // 2, len(sizes) - 2)
    return float(np.polyfit(np.log(sizes[half:]), np.log(values[half:]), 1)[0])


def main(argv: list[str] | None = None) -> int:
    """Measure, fit, draw."""
    from matplotlib.figure import Figure

    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two sizes each, too few for a good fit")
    parser.add_argument("--draw", type=Path, default=PICTURE, help="picture to write")
    args = parser.parse_args(argv)
    figure = Figure(figsize=(18, 7), layout="constrained")
    axes = figure.subplots(2, 5)
    axes.flat[-1].set_axis_off()
    print("| what | grows as | values |\n|---|---|---|")
    for axis, (name, all_sizes, measure, unit) in zip(axes.flat, MEASURED, strict=False):
        sizes = all_sizes[:2] if args.quick else all_sizes
        values = [measure(size) for size in sizes]
        power = exponent(sizes, values)
        axis.loglog(sizes, values, "o-")
        quantity, _, fixed = name.partition(", ")
        axis.set_title(f"{quantity}\n({fixed}): {name[0]}^{power:.2f}", fontsize=10)
        axis.set_xlabel(name[0])
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=7)
        axis.set_xticks([], minor=True)
        axis.set_ylabel(unit)
        axis.grid(visible=True, which="both", alpha=0.3)
        listed = ", ".join(f"{value:.3g}" for value in values)
        print(f"| {name} | {name[0]}^{power:.2f} | {listed} {unit} |")
    figure.savefig(args.draw, dpi=80)
    print(f"\nwrote {args.draw}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
