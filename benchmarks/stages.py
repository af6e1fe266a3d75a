"""Run the statistics stages as processes: time, peak memory over the rows, and sweeps that share their work."""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path

from benchmarks.imported_project import STATISTICS, ImportedProject, rff
from benchmarks.measure import Row, at_most

SCATTER = 6000**2 * 8  # bytes of one D×D float64 matrix at D = 6000


def rows(quick: bool) -> list[Row]:
    """Measure every row."""
    with tempfile.TemporaryDirectory(prefix="referee-bench-") as folder:
        D = 500 if quick else 2000
        project = ImportedProject(Path(folder) / "sweeps")
        project.write(source=2_500, target=700, classes=31, per_task=6, rff=rff(D))
        project.cache()
        return [
            office_home(Path(folder) / "officehome", quick),
            memory(Path(folder), quick),
            sigmas(project, [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1][: 2 if quick else 6], D),
            seeds(project, list(range(2 if quick else 5)), D),
        ]


def office_home(folder: Path, quick: bool) -> Row:
    """Time one problem of Office-Home's size at the published D, five seeds, from source statistics to scores."""
    project, D = ImportedProject(folder), 1500 if quick else 6000
    project.write(
        source=650 if quick else 4_000,
        target=650 if quick else 4_000,
        classes=65,
        per_task=5,
        width=128 if quick else 768,
        clip_width=64 if quick else 512,
        rff=rff(D),
        data={"seeds": [0, 1, 2, 3, 4], "test_fraction": 0.1},
    )
    project.cache()
    seconds = {stage: project.run(stage, key)[0] for stage, key in STATISTICS}
    total = sum(seconds.values())
    name = f"one problem of Office-Home's size, 65 classes, 13 tasks, 5 seeds, D={D}, source to evaluate"
    detail = ", ".join(f"{stage} {time:.1f} s" for stage, time in seconds.items())
    return at_most(name, total, "–", 40, detail, unit="s")


def memory(folder: Path, quick: bool) -> Row:
    """Measure the peak memory of `adapt` at D=6000, with few rows and only one size if ``quick``."""
    peaks: dict[int, int] = {}
    for n in (4_000,) if quick else (50_000, 200_000):
        project = ImportedProject(folder / str(n))
        options = {
            "source": 2_000,
            "target": n,
            "classes": 10,
            "per_task": 5,
            "rff": rff(6000),
            "method": {"variant": "calibrated", "options": {"rounds": 0 if quick else 1}},
        }
        # in a separate process, because a child's peak includes the memory of the process it was forked from
        writer = multiprocessing.get_context("spawn").Process(target=project.write, kwargs=options)
        writer.start()
        writer.join()
        project.cache()
        peaks[n] = {stage: project.run(stage, key)[1] for stage, key in STATISTICS[:-1]}["adapt"]
    lowest_peak, largest_n_peak = min(peaks.values()), peaks[max(peaks)]
    return Row(
        name="peak memory of adapt, D=6000",
        ratio=largest_n_peak / SCATTER,
        baseline="one D×D float64 scatter, 288 MB",
        target="≤ 6×" if quick else "≤ 6×, independent of the rows",
        met=largest_n_peak / SCATTER <= 6 and largest_n_peak / lowest_peak < 1.15,
        detail=", ".join(f"{n:,} rows × 3 views {peak / 1e9:.2f} GB" for n, peak in peaks.items()),
    )


def sigmas(project: ImportedProject, values: list[float], D: int) -> Row:
    """Compare all sigmas in one process with one process per sigma."""

    def seconds(chosen: list[float]) -> float:
        project.change(sensitivity={"D": [10], "sigma": chosen})
        return project.run("sensitivity", "a-b", "sigma")[0]

    joint, separate = seconds(values), sum(seconds([value]) for value in values)
    return _sweep(f"a sweep over {len(values)} sigmas, D={D}", joint, separate, len(values))


def seeds(project: ImportedProject, values: list[int], D: int) -> Row:
    """Compare all seeds in one process with one process per seed."""

    def seconds(chosen: list[int]) -> float:
        project.change(data={"seeds": chosen, "test_fraction": 0.1})
        for domain in ("a", "b"):
            project.run("order", domain)
            project.run("tasks", domain)
        return sum(project.run(stage, key)[0] for stage, key in STATISTICS)

    joint, separate = seconds(values), sum(seconds([value]) for value in values)
    name = f"{len(values)} seeds through `source`, `adapt` and `evaluate`, D={D}"
    return _sweep(name, joint, separate, len(values))


def _sweep(name: str, joint: float, separate: float, count: int) -> Row:
    baseline = f"{count} single runs: {separate:.1f} s"
    ratio = joint / separate
    return Row(name, ratio, baseline, "< 1×", ratio < 1, f"{joint:.1f} s")
