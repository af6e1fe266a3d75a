"""Accuracy over D or sigma."""

from __future__ import annotations

from typing import Any

from pipeline.report.page.chart import Chart, Origin, Spec, dot, percent_floor, quantity, spec, tip
from pipeline.report.page.problem_results import ProblemResults

MEANING = {"D": "number of random features, D", "sigma": "sigma"}
FORMS = {"D": "d", "sigma": ".0e"}


def sensitivity(results: ProblemResults, swept: str) -> Chart:
    """Draw A_T over D or sigma, on a logarithmic axis."""
    values: list[dict[str, Any]] = [
        {"v": value, "a": mean, "sd": sd, "low": max(0.0, mean - sd), "high": min(100.0, mean + sd)}
        for value, (mean, sd) in results.sweeps[swept].items()
    ]
    low, high = min(values, key=lambda v: v["a"]), max(values, key=lambda v: v["a"])
    return Chart(
        f"over-{swept}",
        f"Sensitivity to {swept}",
        f"A_T over {len(values)} values of {swept}: lowest {low['a']} % at {low['v']:g}, highest {high['a']} % "
        f"at {high['v']:g}.",
        _curve(values, swept),
        "Everything else as in params.yaml. The band is ± one standard deviation over the seeds.",
        Origin(f"sensitivity@{results.name}", f"results/sensitivity/{results.name}/{swept}.csv"),
        header=(swept, "A_T, %", "sd"),
        rows=[(f"{v['v']:g}", v["a"], v["sd"]) for v in values],
    )


def _curve(values: list[dict[str, Any]], swept: str) -> Spec:
    form = FORMS[swept]
    scale = {"domain": [percent_floor([v["low"] for v in values]), 100], "zero": False}
    y = quantity("a", "final accuracy A_T, %", scale=scale)
    axis = {"values": [v["v"] for v in values], "format": form, "grid": False, "labelOverlap": True}
    x = quantity(
        "v", MEANING[swept], scale={"type": "log", "nice": False, "padding": 12}, axis=axis
    )
    tips = [tip("v", swept, form), tip("a", "A_T, %", ".2f"), tip("sd", "sd", ".2f")]
    band = {
        "mark": {"type": "area", "style": "band"},
        "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}},
    }
    line = {"mark": {"type": "line", "style": "bar-line"}, "encoding": {"y": y}}
    points = {"mark": dot(80, "bar-point"), "encoding": {"y": y, "tooltip": tips}}
    return spec(values, height=240, encoding={"x": x}, layer=[band, line, points])
