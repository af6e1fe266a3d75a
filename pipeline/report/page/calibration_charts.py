"""Whether weights and confidences mean something."""

from __future__ import annotations

from typing import Any

from pipeline.report.page.chart import (
    Chart,
    Spec,
    dot,
    kind,
    percent_floor,
    quantity,
    spec,
    tip,
)
from pipeline.report.page.problem_results import ProblemResults

BRANCH_TITLES = {"klda": "kernel LDA", "clip": "CLIP", "fused": "fusion"}
TIMID = 20  # images; a bin with fewer is drawn paler
HOW_TO_READ = (
    " On the dashed line, 80 % confident means right 80 times in 100; bars below it: overconfident. Pale bars: fewer "
    f"than {TIMID} test images."
)
HEIGHT = 260


def weights(results: ProblemResults) -> Chart:
    """Draw the accuracy of pseudo-labels over their weight."""
    values: list[dict[str, Any]] = [
        {
            "bin": f"{float(r['weight']):.3g}",
            "place": place,
            "range": f"{float(r['lowest']):.4g} to {float(r['highest']):.4g}",
            "n": int(r["images"]),
            "a": float(r["accuracy"]),
        }
        for place, r in enumerate(results.weights, start=1)
    ]
    knows = results.metrics.get("weight_auroc")
    answer = "Every label is right or every one wrong, so there is nothing for the weight to know."
    if knows is not None:
        answer = f"A right label weighs more than a wrong one in {knows:.1f} % of all pairs (50: it knows nothing)."
    ends = ""
    if values:
        ends = f"Of the lightest pseudo-labels {values[0]['a']} % are right, of the heaviest {values[-1]['a']} %. "
    return Chart(
        "weights",
        "Does the weight know?",
        ends + answer,
        _line(values),
        f"{answer} Pseudo-labels that were kept, sorted by weight and cut into tenths (fewer where weights are equal), "
        "all seeds together.",
        results.origin("weights.csv"),
        header=("tenth", "weight", "pseudo-labels", "right, %"),
        rows=[(v["place"], v["range"], v["n"], v["a"]) for v in values],
    )


def _line(values: list[dict[str, Any]]) -> Spec:
    floor = percent_floor([v["a"] for v in values])
    tips = [
        tip("range", "weight"),
        tip("bin", "mean weight"),
        tip("n", "pseudo-labels", "d"),
        tip("a", "right, %", ".2f"),
    ]
    return spec(
        values,
        height=HEIGHT,
        encoding={
            "x": kind(
                "place", "tenth of the pseudo-labels, lightest first", axis={"labelAngle": 0}
            ),
            "y": quantity("a", "right, %", scale={"domain": [floor, 100], "zero": False}),
        },
        layer=[
            {"mark": {"type": "line", "style": "bar-line"}},
            {"mark": dot(90, "bar-point"), "encoding": {"tooltip": tips}},
        ],
    )


def reliability(results: ProblemResults, branch: str) -> Chart:
    """Draw accuracy over confidence of one branch, with the diagonal it should follow."""
    values: list[dict[str, Any]] = [
        {
            **{key: float(r[key]) for key in ("from", "to", "confidence", "accuracy")},
            "n": int(r["images"]),
            "sure": int(r["images"]) >= TIMID,
        }
        for r in results.reliability
        if r["branch"] == branch
    ]
    ece = results.metrics.get("ece", {}).get(branch)
    error = "" if ece is None else f"Calibration error (ECE) {ece:.1f} %."
    return Chart(
        f"reliability-{branch}",
        f"Reliability: {BRANCH_TITLES[branch]}",
        f"Accuracy over confidence in {len(values)} bins. {error}",
        _bins(values),
        error + (HOW_TO_READ if branch == next(iter(BRANCH_TITLES)) else ""),
        results.origin("reliability.csv"),
        header=("confidence, %", "mean, %", "right, %", "test images"),
        rows=[
            (f"{v['from']:.0f}–{v['to']:.0f}", v["confidence"], v["accuracy"], v["n"])
            for v in values
        ],
        columns=4,
    )


def _bins(values: list[dict[str, Any]]) -> Spec:
    axes = {"scale": {"domain": [0, 100]}, "axis": {"tickCount": 5}}
    x = quantity("confidence", "confidence, %", **axes)
    y = quantity("accuracy", "right, %", **axes)
    tips = [
        tip("confidence", "mean confidence, %", ".1f"),
        tip("accuracy", "right, %", ".1f"),
        tip("n", "test images", "d"),
    ]
    pale = {"condition": {"test": "datum.sure", "value": 1}, "value": 0.4}
    bars = {
        "mark": {"type": "rect", "style": "bin"},
        "encoding": {
            "x": {**x, "field": "from"},
            "x2": {"field": "to"},
            "y": y,
            "y2": {"datum": 0},
            "opacity": pale,
            "tooltip": tips,
        },
    }
    diagonal = {
        "data": {"values": [{"x": 0, "y": 0}, {"x": 100, "y": 100}]},
        "mark": {"type": "line", "style": "diagonal"},
        "encoding": {"x": {**x, "field": "x"}, "y": {**y, "field": "y"}},
    }
    points = {"mark": dot(50, "marker"), "encoding": {"x": x, "y": y, "tooltip": tips}}
    return spec(values, height=HEIGHT, layer=[bars, diagonal, points])
