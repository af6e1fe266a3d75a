"""How time and memory of the statistics grow with N, D, C and T: measured, fitted, drawn (docs/growth.png).

`python -m benchmarks.growth` takes some minutes. Expected: linear in N, D² for accumulation, D³/3 for a solve, one
solve per task.
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.measure import Work, best_in_turns
from pipeline.method import kernel_lda
from pipeline.method.adaptation import adapt_tasks
from pipeline.method.class_statistics import zeros
from pipeline.method.random_fourier_features import deviations, draw_basis
from pipeline.method.referee import Referee
from pipeline.method.rows import TargetTask
from pipeline.method.source_model import fit_source
from pipeline.method.variants import VARIANTS

PICTURE = Path(__file__).parents[1] / "docs" / "growth.png"
WIDTH = 256


def _shortest(work: Work, rounds: int = 3) -> float:
    return best_in_turns(work, rounds=rounds, warm_up=False)[0]


def accumulation(n: int, D: int, C: int = 10) -> float:
    """Time of the statistics of n rows."""
    basis = draw_basis(WIDTH, D, 1e-4, "gamma", 0)
    x = np.random.default_rng(0).normal(size=(n, WIDTH)).astype(np.float32)
    labels = np.arange(n) % C
    statistics = zeros(C, D)
    return _shortest(lambda: statistics.update(deviations(basis, x), labels))


def solve(D: int, C: int) -> float:
    """Time of one classifier."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(C, D))
    rows = rng.normal(size=(D, D))
    covariance = np.asfortranarray(rows @ rows.T / D)
    return _shortest(lambda: kernel_lda.discriminants(means, covariance, ridge=0.1))


def whole_problem(T: int, D: int = 500, per_class: int = 40, per_task: int = 2, times: int = 2) -> float:
    """Time of source fit and adaptation over T tasks."""
    rng = np.random.default_rng(0)
    C = per_task * T
    y = np.repeat(np.arange(C), per_class)
    x = (rng.normal(size=(C, WIDTH))[y] + rng.normal(size=(len(y), WIDTH))).astype(np.float32)
    tasks = [per_task * t + np.arange(per_task) for t in range(T)]
    views = dict.fromkeys(("original", "zeros", "rand"), x)
    basis, options = draw_basis(WIDTH, D, 1e-4, "gamma", 0), VARIANTS["no_clip"]
    cosines = rng.normal(size=(len(y), C))
    target = [
        TargetTask(classes=classes, views=dict.fromkeys(views, x[part]), cosines=cosines[part])
        for classes, part in ((classes, np.isin(y, classes)) for classes in tasks)
    ]

    def run() -> None:
        adapt_tasks(Referee(basis, options, 30.0), target, fit_source(basis, views, y, tasks, options))

    return _shortest(run, times)


def peak(T: int = 3, D: int = 500, per_class: int = 40, per_task: int = 2) -> float:
    """Largest memory of the same, its rows included, in bytes."""
    tracemalloc.start()
    whole_problem(T, D, per_class, per_task, times=1)
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(largest)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of log(value) over log(size), from the larger half."""
    half = min(len(sizes) // 2, len(sizes) - 2)
    return float(np.polyfit(np.log(sizes[half:]), np.log(values[half:]), 1)[0])


def measured(quick: bool) -> dict[str, tuple[list[int], list[float], str]]:
    """Return for each picture its sizes, values and what they are; quick: two small sizes each."""
    rows, widths = [1000, 2000, 4000, 8000, 16000], [500, 1000, 2000, 3000, 4000]
    classes, tasks = [5, 20, 80, 320], [2, 4, 8, 16]
    images, per_task = [40, 160, 640, 2560], [2, 8, 32, 128]
    if quick:
        rows, widths, classes, tasks, images, per_task = (
            sizes[:2] for sizes in (rows, widths, classes, tasks, images, per_task)
        )
    return {
        "N: accumulation, D=1000": (rows, [accumulation(n, 1000) for n in rows], "s"),
        "D: accumulation, N=2000": (widths, [accumulation(2000, D) for D in widths], "s"),
        "D: one solve, C=30": (widths, [solve(D, 30) for D in widths], "s"),
        "C: one solve, D=1000": (classes, [solve(1000, C) for C in classes], "s"),
        "T: a whole problem, D=500": (tasks, [whole_problem(T) for T in tasks], "s"),
        "D: memory of a problem, N=240": (widths[:4], [peak(D=D) for D in widths[:4]], "bytes"),
        "N: memory of a problem, D=500": (
            [6 * n for n in images], [peak(per_class=n) for n in images], "bytes",
        ),
        "C: memory of a problem, D=500, 5 rows per class": (
            [3 * n for n in per_task], [peak(per_class=5, per_task=n) for n in per_task], "bytes",
        ),
        "T: memory of a problem, D=500": (tasks, [peak(T) for T in tasks], "bytes"),
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Measure, fit, draw."""
    from matplotlib.figure import Figure

    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two sizes each: no fit worth having")
    parser.add_argument("--draw", type=Path, default=PICTURE, help="the picture to write")
    args = parser.parse_args(argv)
    figure = Figure(figsize=(18, 7), layout="constrained")
    axes = figure.subplots(2, 5)
    results = measured(args.quick)
    axes.flat[-1].set_axis_off()
    print("| what | grows as | values |\n|---|---|---|")
    for axis, (name, (sizes, values, unit)) in zip(axes.flat, results.items(), strict=False):
        power = exponent(sizes, values)
        axis.loglog(sizes, values, "o-")
        what, _, fixed = name.partition(", ")
        axis.set_title(f"{what}\n({fixed}): {name[0]}^{power:.2f}", fontsize=10)
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
