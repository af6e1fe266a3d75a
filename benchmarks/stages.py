"""The statistics stages as processes: memory that does not grow with the rows, sweeps that share their work."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.imported_project import ImportedProject
from benchmarks.row import Row

BEFORE_ADAPT = (("basis", "a"), ("source", "a"), ("pseudo_label", "a-b"), ("refine", "a-b"))
SCATTER = 6000**2 * 8  # bytes of one D×D float64 matrix at D = 6000


def rows(quick: bool) -> list[Row]:
    """Measure every row."""
    with tempfile.TemporaryDirectory(prefix="referee-bench-") as folder:
        return [*memory(Path(folder) / "memory", quick), *sweeps(Path(folder) / "sweeps", quick)]


def apart(function: Callable[..., object], **arguments: Any) -> None:
    """Call a function in a process of its own: a child's peak counts from that of the process it was forked from."""
    process = multiprocessing.get_context("spawn").Process(target=function, kwargs=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{function} ended with {process.exitcode}")


def memory(folder: Path, quick: bool) -> list[Row]:
    """Peak memory of `adapt` at D=6000; quick: few rows, no rounds, and no second size to compare with."""
    peaks: dict[int, int] = {}
    for n in (4_000,) if quick else (50_000, 200_000):
        project = ImportedProject(folder / str(n))
        options = {"rounds": 0} if quick else {"rounds": 1}
        sizes = {"source": 2_000, "target": n, "classes": 10, "per_task": 5}
        sections = {
            "rff": {"D": 6000, "sigma": 1e-4},
            "method": {"variant": "calibrated", "options": options},
        }
        apart(project.write, **sizes, **sections)
        project.cache()
        for stage, argument in BEFORE_ADAPT:
            project.run(stage, argument)
        peaks[n] = project.run("adapt", "a-b")[1]
    few, many = min(peaks.values()), peaks[max(peaks)]
    told = ", ".join(f"{n:,} rows × 3 views {peak / 1e9:.2f} GB" for n, peak in peaks.items())
    return [
        Row(
            name="peak memory of adapt, D=6000",
            ratio=many / SCATTER,
            baseline="one D×D float64 scatter, 288 MB",
            target="≤ 6×" if quick else "≤ 6×, independent of the rows",
            met=many / SCATTER <= 6 and many / few < 1.15,
            detail=told,
        )
    ]


def sweeps(folder: Path, quick: bool) -> list[Row]:
    """Sigmas and seeds in one process each, against one process for every value."""
    D = 500 if quick else 2000
    project = ImportedProject(folder)
    seeds = list(range(2 if quick else 5))
    project.write(source=2_500, target=700, classes=31, per_task=6, rff={"D": D, "sigma": 1e-4})
    sigmas = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1][: 2 if quick else 6]
    project.cache()
    project.change(sensitivity={"D": [10], "sigma": sigmas})
    together = project.run("sensitivity", "a-b")[0]
    alone = 0.0
    for sigma in sigmas:
        project.change(sensitivity={"D": [10], "sigma": [sigma]})
        alone += project.run("sensitivity", "a-b")[0]

    def all_stages() -> float:
        project.run("manifest", "a")
        project.run("manifest", "b")
        stages = (*BEFORE_ADAPT, ("adapt", "a-b"), ("evaluate", "a-b"))
        return sum(project.run(stage, argument)[0] for stage, argument in stages)

    project.change(data={"seeds": seeds, "test_fraction": 0.1})
    at_once = all_stages()
    single = 0.0
    for seed in seeds:
        project.change(data={"seeds": [seed], "test_fraction": 0.1})
        single += all_stages()
    return [
        Row(
            name=f"a sweep over {len(sigmas)} sigmas, D={D}",
            ratio=together / alone,
            baseline=f"{len(sigmas)} single runs: {alone:.1f} s",
            target="< 1×",
            met=together < alone,
            detail=f"{together:.1f} s",
        ),
        Row(
            name=f"{len(seeds)} seeds through basis … evaluate, D={D}",
            ratio=at_once / single,
            baseline=f"{len(seeds)} single runs: {single:.1f} s",
            target="< 1×",
            met=at_once < single,
            detail=f"{at_once:.1f} s",
        ),
    ]
