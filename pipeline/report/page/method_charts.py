"""Final accuracies: of every method on one problem, over D and sigma, and what adapting gains on every problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.report.compared_methods import GROUPS
from pipeline.report.page.chart import Chart, Origin, band, chart_spec, percent_scale
from pipeline.report.page.problem_results import ProblemResults
from pipeline.report.suite_tables import HEADLINE

GAINS = ("calibrated", "source_only", "clip_zero_shot")  # methods of the overview
MEANING = {"D": "number of random features, D", "sigma": "sigma"}
FORMS = {"D": "d", "sigma": ".0e"}


def methods(results: ProblemResults) -> Chart:
    """Draw A_T of every compared method, the best on top."""
    ran = [figures for figures in results.methods.values() if not figures.failed]
    values: list[dict[str, Any]] = [
        {
            "method": figures.title,
            "group": GROUPS[figures.group],
            "a": figures.A_T,
            "sd": figures.A_T_sd,
            **band(figures.A_T, figures.A_T_sd),
        }
        for figures in sorted(ran, key=lambda figures: (-figures.A_T, figures.title))
    ]
    present = {value["group"] for value in values}
    compared = [value for value in values if value["group"] != GROUPS["ceiling"]] or values
    best = compared[0]
    return Chart(
        "methods",
        "Every method on the same features",
        f"{len(compared)} methods; the best is {best['method']} with {best['a']} %.",
        chart_spec(
            "methods",
            values,
            height=max(260, 24 * len(values)),
            scale=percent_scale([value["low"] for value in values]),
            groups=[heading for heading in GROUPS.values() if heading in present],
        ),
        "Final accuracy A_T, mean and ± one standard deviation over the seeds; "
        f"{results.comparison.test_images:,} test images per seed.",
        Origin(f"compare@{results.name}", results.files.comparison.as_posix()),
        header=("method", "kind", "A_T, %", "sd"),
        rows=[(v["method"], v["group"], v["a"], v["sd"]) for v in values],
    )


def gains(problems: Sequence[ProblemResults]) -> Chart | None:
    """Draw, for each problem, A_T with and without adapting; None where no such method was compared."""
    values: list[dict[str, Any]] = [
        {
            "problem": problem.title,
            "method": HEADLINE[method],
            "joined": method != "clip_zero_shot",
            "a": problem.methods[method].A_T,
            "sd": problem.methods[method].A_T_sd,
        }
        for problem in problems
        for method in reversed(GAINS)  # the method that adapts is drawn last, on top
        if method in problem.methods and not problem.methods[method].failed
    ]
    if not values:
        return None
    present = {v["method"] for v in values}
    names = [HEADLINE[method] for method in GAINS if HEADLINE[method] in present]
    return Chart(
        "gains",
        "What adapting gains",
        f"{len(problems)} problems; for each the final accuracy of {', '.join(names)}, as in the table above.",
        chart_spec(
            "gains",
            values,
            height=max(120, 30 * len(problems)),
            scale=percent_scale([value["a"] for value in values]),
            names=names,
        ),
        "The line goes from the source model, which does not adapt, to the calibrated method.",
        Origin("compare", problems[0].files.comparison.parent.as_posix()),
        columns=12,
    )


def sensitivity(results: ProblemResults, swept: str) -> Chart:
    """Draw A_T over the number of features D or the kernel's width sigma, on a logarithmic axis."""
    values: list[dict[str, Any]] = [
        {"v": value, "a": mean, "sd": sd, **band(mean, sd)}
        for value, (mean, sd) in results.sweeps[swept].items()
    ]
    low, high = min(values, key=lambda v: v["a"]), max(values, key=lambda v: v["a"])
    folder = results.files.sensitivity
    return Chart(
        f"over-{swept}",
        f"Sensitivity to {swept}",
        f"A_T over {len(values)} values of {swept}: lowest {low['a']} % at {low['v']:g}, highest {high['a']} % "
        f"at {high['v']:g}.",
        chart_spec(
            "sweep",
            values,
            height=240,
            scale=percent_scale([value["low"] for value in values]),
            title=MEANING[swept],
            ticks=[value["v"] for value in values],
            form=FORMS[swept],
            swept=swept,
        ),
        f"Everything else as in params.yaml; {results.metrics.test_images:,} test images per seed. "
        "The band is ± one standard deviation over the seeds.",
        Origin(f"sensitivity@{results.name}", f"{folder.as_posix() if folder else ''}/{swept}.csv"),
        header=(swept, "A_T, %", "sd"),
        rows=[(f"{v['v']:g}", v["a"], v["sd"]) for v in values],
    )
