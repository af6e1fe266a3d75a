"""Accuracy over a parameter, and of every method side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.report.comparison_files import Figures
from pipeline.report.page.chart import Chart, kind, percent_floor, quantity, series, spec, tip
from pipeline.report.page.problem_results import ProblemResults
from pipeline.report.suite_tables import HEADINGS, HEADLINE

MEANING = {"D": "number of random features, D", "sigma": "sigma"}


def sensitivity(results: ProblemResults, swept: str) -> Chart:
    """Draw A_T over D or sigma, on a logarithmic axis."""
    values: list[dict[str, Any]] = [
        {"v": value, "a": mean, "sd": sd, "low": max(0.0, mean - sd), "high": min(100.0, mean + sd)}
        for value, (mean, sd) in results.sweeps[swept].items()
    ]
    floor = percent_floor([v["low"] for v in values])
    y = {"scale": {"domain": [floor, 100], "zero": False}}
    ticks = [v["v"] for v in values]
    form = "d" if swept == "D" else ".0e"
    x = quantity(
        "v",
        MEANING[swept],
        scale={"type": "log", "nice": False, "padding": 12},
        axis={"values": ticks, "format": form, "grid": False},
    )
    drawn = spec(
        values,
        height=240,
        encoding={"x": x},
        layer=[
            {
                "mark": {"type": "area", "style": "band"},
                "encoding": {
                    "y": quantity("low", "final accuracy A_T, %", **y),
                    "y2": {"field": "high"},
                },
            },
            {
                "mark": {"type": "line", "style": "bar-line"},
                "encoding": {"y": quantity("a", "final accuracy A_T, %", **y)},
            },
            {
                "mark": {
                    "type": "point",
                    "filled": True,
                    "size": 80,
                    "opacity": 1,
                    "style": "bar-point",
                },
                "encoding": {
                    "y": quantity("a", "final accuracy A_T, %", **y),
                    "tooltip": [
                        tip("v", swept, form),
                        tip("a", "A_T, %", ".2f"),
                        tip("sd", "sd", ".2f"),
                    ],
                },
            },
        ],
    )
    low, high = min(values, key=lambda v: v["a"]), max(values, key=lambda v: v["a"])
    return Chart(
        f"over-{swept}",
        f"Sensitivity to {swept}",
        f"A_T over {len(values)} values of {swept}: lowest {low['a']} % at {low['v']:g}, highest {high['a']} % "
        f"at {high['v']:g}.",
        drawn,
        "Everything else as in params.yaml. The band is ± one standard deviation over the seeds.",
        f"sensitivity@{results.name}",
        f"results/sensitivity/{results.name}/{swept}.csv",
        (swept, "A_T, %", "sd"),
        [(f"{v['v']:g}", v["a"], v["sd"]) for v in values],
    )


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
    groups = [
        heading for heading in HEADINGS.values() if any(v["group"] == heading for v in values)
    ]
    floor = percent_floor([v["low"] for v in values])
    y = kind("method", None, axis={"labelLimit": 230, "labelPadding": 6, "ticks": False})
    colour = series("group", groups, columns=5)
    x = {"scale": {"domain": [floor, 100], "zero": False}, "axis": {"tickCount": 6}}
    drawn = spec(
        values,
        height=max(260, 24 * len(values)),
        encoding={"y": y, "color": colour},
        layer=[
            {
                "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6},
                "encoding": {
                    "x": quantity("low", "final accuracy A_T, %", **x),
                    "x2": {"field": "high"},
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
                "encoding": {
                    "x": quantity("a", "final accuracy A_T, %", **x),
                    "shape": colour,
                    "tooltip": [
                        tip("method", "method"),
                        tip("group", "kind"),
                        tip("a", "A_T, %", ".2f"),
                        tip("sd", "sd", ".2f"),
                    ],
                },
            },
        ],
    )
    best = values[0]
    return Chart(
        "methods",
        "Every method on the same features",
        f"{len(values)} methods; the best is {best['method']} with {best['a']} %.",
        drawn,
        "Final accuracy A_T, mean and ± one standard deviation over the seeds.",
        f"compare@{results.name}",
        f"results/comparison/{results.name}.json",
        ("method", "kind", "A_T, %", "sd"),
        [(v["method"], v["group"], v["a"], v["sd"]) for v in values],
    )


def gains(problems: Mapping[str, tuple[str, Mapping[str, Figures]]]) -> Chart | None:
    """Draw, per problem (name -> title, figures), what does not adapt, what does, and the way between."""
    shown = {
        "clip_zero_shot": HEADLINE["clip_zero_shot"],
        "source_only": HEADLINE["source_only"],
        "calibrated": HEADLINE["calibrated"],
    }
    values: list[dict[str, Any]] = [
        {"problem": title, "method": heading, "a": told[method].mean, "sd": told[method].sd}
        for title, told in problems.values()
        for method, heading in shown.items()
        if method in told
    ]
    if not values:
        return None
    floor = percent_floor([v["a"] for v in values])
    present = [heading for heading in shown.values() if any(v["method"] == heading for v in values)]
    y = kind(
        "problem", None, axis={"labelLimit": 220, "labelPadding": 8, "ticks": False, "grid": True}
    )
    x = {"scale": {"domain": [floor, 100], "zero": False}, "axis": {"tickCount": 6}}
    drawn = spec(
        values,
        height=max(120, 30 * len(problems)),
        encoding={"y": y},
        layer=[
            {
                "transform": [{"filter": "datum.method !== 'CLIP zero-shot'"}],
                "mark": {"type": "line", "style": "way"},
                "encoding": {
                    "x": quantity("a", "final accuracy A_T, %", **x),
                    "detail": {"field": "problem"},
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 130, "opacity": 1},
                "encoding": {
                    "x": quantity("a", "final accuracy A_T, %", **x),
                    "color": _by_method(present),
                    "shape": _by_method(present),
                    "tooltip": [
                        tip("problem", "problem"),
                        tip("method", "method"),
                        tip("a", "A_T, %", ".2f"),
                        tip("sd", "sd", ".2f"),
                    ],
                },
            },
        ],
    )
    return Chart(
        "gains",
        "What adapting gains",
        f"{len(problems)} problems; of each the final accuracy of {', '.join(present)}, as in the table above.",
        drawn,
        "The line runs from the source model, which does not adapt, to the calibrated method.",
        "compare",
        "results/comparison",
        columns=12,
    )


def _by_method(present: Sequence[str]) -> dict[str, object]:
    order = ["calibrated", "source only", "CLIP zero-shot"]
    return series("method", [name for name in order if name in present])
