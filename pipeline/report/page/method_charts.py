"""Methods side by side: all of them on one problem, and what adapting gains on every problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.report.comparison_files import Figures
from pipeline.report.page.chart import (
    Chart,
    Origin,
    Spec,
    dot,
    kind,
    percent_floor,
    quantity,
    series,
    spec,
    tip,
)
from pipeline.report.page.problem_results import ProblemResults
from pipeline.report.suite_tables import HEADINGS, HEADLINE

GAINS = ("calibrated", "source_only", "clip_zero_shot")  # methods of the overview
AXIS = "final accuracy A_T, %"


def methods(results: ProblemResults) -> Chart:
    """Draw A_T of every compared method, the best on top."""
    values: list[dict[str, Any]] = [
        {
            "method": told.title,
            "group": HEADINGS[told.group],
            "a": told.mean,
            "sd": told.sd,
            "low": max(0.0, told.mean - told.sd),
            "high": min(100.0, told.mean + told.sd),
        }
        for told in sorted(results.methods.values(), key=lambda told: (-told.mean, told.title))
    ]
    best = values[0]
    return Chart(
        "methods",
        "Every method on the same features",
        f"{len(values)} methods; the best is {best['method']} with {best['a']} %.",
        _ranges(values),
        "Final accuracy A_T, mean and ± one standard deviation over the seeds.",
        Origin(f"compare@{results.name}", f"results/comparison/{results.name}.json"),
        header=("method", "kind", "A_T, %", "sd"),
        rows=[(v["method"], v["group"], v["a"], v["sd"]) for v in values],
    )


def _ranges(values: list[dict[str, Any]]) -> Spec:
    present = {v["group"] for v in values}
    group = series("group", [heading for heading in HEADINGS.values() if heading in present])
    x = _accuracy([v["low"] for v in values])
    tips = [
        tip("method", "method"),
        tip("group", "kind"),
        tip("a", "A_T, %", ".2f"),
        tip("sd", "sd", ".2f"),
    ]
    rules = {
        "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6},
        "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}},
    }
    points = {"mark": dot(90), "encoding": {"x": x, "shape": group, "tooltip": tips}}
    y = kind("method", None, axis={"labelPadding": 6, "ticks": False})
    return spec(
        values,
        height=max(260, 24 * len(values)),
        encoding={"y": y, "color": group},
        layer=[rules, points],
    )


def gains(problems: Mapping[str, tuple[str, Mapping[str, Figures]]]) -> Chart | None:
    """Draw, per problem (name -> title, figures), what does not adapt, what does, and the way between."""
    values: list[dict[str, Any]] = [
        {
            "problem": title,
            "method": HEADLINE[method],
            "adapts": method != "clip_zero_shot",
            "a": told[method].mean,
            "sd": told[method].sd,
        }
        for title, told in problems.values()
        for method in reversed(GAINS)  # what adapts is drawn last, on top
        if method in told
    ]
    if not values:
        return None
    present = {v["method"] for v in values}
    names = [HEADLINE[method] for method in GAINS if HEADLINE[method] in present]
    return Chart(
        "gains",
        "What adapting gains",
        f"{len(problems)} problems; of each the final accuracy of {', '.join(names)}, as in the table above.",
        _ways(values, names, len(problems)),
        "The line runs from the source model, which does not adapt, to the calibrated method.",
        Origin("compare", "results/comparison"),
        columns=12,
    )


def _ways(values: list[dict[str, Any]], names: Sequence[str], problems: int) -> Spec:
    x = _accuracy([v["a"] for v in values])
    method = series("method", names)
    tips = [
        tip("problem", "problem"),
        tip("method", "method"),
        tip("a", "A_T, %", ".2f"),
        tip("sd", "sd", ".2f"),
    ]
    ways = {
        "transform": [{"filter": "datum.adapts"}],
        "mark": {"type": "line", "style": "way"},
        "encoding": {"x": x, "detail": {"field": "problem"}},
    }
    points = {
        "mark": dot(130),
        "encoding": {"x": x, "color": method, "shape": method, "tooltip": tips},
    }
    y = kind("problem", None, axis={"labelPadding": 8, "ticks": False, "grid": True})
    return spec(values, height=max(120, 30 * problems), encoding={"y": y}, layer=[ways, points])


def _accuracy(lowest: Sequence[float]) -> Spec:
    scale = {"domain": [percent_floor(lowest), 100], "zero": False}
    return quantity("a", AXIS, scale=scale, axis={"tickCount": 6})
