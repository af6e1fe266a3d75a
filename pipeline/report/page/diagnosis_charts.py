"""Why: who is taken for whom, whether confidence and weight mean something, where the images lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pipeline.report.page.chart import Chart, kind, percent_floor, quantity, spec, tip
from pipeline.report.page.problem_results import ProblemResults
from pipeline.report.page.task_charts import heat_text

BRANCH_TITLES = {"klda": "Kernel LDA (ViT)", "clip": "CLIP", "fused": "Fusion"}
WRITTEN_CLASSES = 12  # up to so many, cells carry their value
NAMED_CLASSES = 40  # up to so many, axes carry the classes' names
COLOURED_CLASSES = 10  # up to so many, each class has its own colour and shape
LISTED_CONFUSIONS = 10
TIMID = 20  # images; a bin with fewer is drawn paler


def confusion(results: ProblemResults) -> Chart:
    """Draw which class is taken for which after the last task, rows adding up to 100."""
    pairs = Counter((row["actual"], row["predicted"]) for row in results.confusion)
    totals = Counter(row["actual"] for row in results.confusion)
    names = [
        name for name in results.class_names if totals[name] or any(p == name for _, p in pairs)
    ]
    values: list[dict[str, Any]] = [
        {"actual": a, "predicted": p, "n": n, "share": round(100 * n / totals[a], 2)}
        for (a, p), n in sorted(pairs.items())
    ]
    axis = {} if len(names) <= NAMED_CLASSES else {"labels": False, "ticks": False}
    cells = {
        "mark": {"type": "rect", "style": "cell-rect"},
        "encoding": {
            "color": quantity(
                "share",
                None,
                scale={"type": "sqrt", "domain": [0, 100]},
                legend={"title": "%", "gradientLength": 160},
            ),
            "tooltip": [
                tip("actual", "is"),
                tip("predicted", "taken for"),
                tip("n", "times", "d"),
                tip("share", "of its images, %", ".1f"),
            ],
        },
    }
    written = heat_text("share", 30, ".0f") if len(names) <= WRITTEN_CLASSES else []
    drawn = spec(
        values,
        height=max(340, min(620, 26 * len(names))),
        encoding={
            "x": kind(
                "predicted",
                "predicted",
                scale={"domain": names},
                axis={**axis, "labelAngle": -40 if _long(names) else 0},
            ),
            "y": kind("actual", "actual", scale={"domain": names}, axis=axis),
        },
        layer=[cells, *written],
    )
    wrong = sorted(
        (v for v in values if v["actual"] != v["predicted"]), key=lambda v: (-v["n"], v["actual"])
    )
    most = wrong[0] if wrong else None
    said = (
        f"The most frequent mistake: {most['actual']} taken for {most['predicted']}, {most['n']} times."
        if most
        else "No image was taken for another class."
    )
    return Chart(
        "confusion",
        "Confusion matrix",
        f"Heat map of {len(names)} classes. {said}",
        drawn,
        "Share of a class's test images, in percent, after the last task, all seeds together. Off the diagonal are "
        "mistakes. The table lists the most frequent ones.",
        f"evaluate@{results.name}",
        f"results/tables/{results.name}/confusion.csv",
        ("is", "taken for", "times", "% of its images"),
        [(v["actual"], v["predicted"], v["n"], v["share"]) for v in wrong[:LISTED_CONFUSIONS]],
    )


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
    floor = percent_floor([v["a"] for v in values])
    y = quantity("a", "right, %", scale={"domain": [floor, 100], "zero": False})
    x = kind("place", "tenth of the pseudo-labels, lightest first", axis={"labelAngle": 0})
    drawn = spec(
        values,
        height=260,
        encoding={"x": x, "y": y},
        layer=[
            {"mark": {"type": "line", "style": "bar-line"}},
            {
                "mark": {
                    "type": "point",
                    "filled": True,
                    "size": 90,
                    "opacity": 1,
                    "style": "bar-point",
                },
                "encoding": {
                    "tooltip": [
                        tip("range", "weight"),
                        tip("bin", "mean weight"),
                        tip("n", "pseudo-labels", "d"),
                        tip("a", "right, %", ".2f"),
                    ]
                },
            },
        ],
    )
    knows = results.metrics.get("weight_auroc")
    answer = (
        f"A right label weighs more than a wrong one in {knows:.1f} % of all pairs (50: the weight knows nothing)."
        if knows is not None
        else "Every label is right or every one wrong, so there is nothing for the weight to know."
    )
    first, last = (values[0], values[-1]) if values else ({"a": 0}, {"a": 0})
    return Chart(
        "weights",
        "Does the weight know?",
        f"Of the lightest pseudo-labels {first['a']} % are right, of the heaviest {last['a']} %. {answer}",
        drawn,
        f"{answer} Pseudo-labels that were kept, sorted by weight and cut into tenths, all seeds together.",
        f"evaluate@{results.name}",
        f"results/tables/{results.name}/weights.csv",
        ("tenth", "weight", "pseudo-labels", "right, %"),
        [(v["place"], v["range"], v["n"], v["a"]) for v in values],
    )


def reliability(results: ProblemResults, branch: str) -> Chart:
    """Draw accuracy over confidence of one branch, with the diagonal it should follow."""
    rows = [row for row in results.reliability if row["branch"] == branch]
    values: list[dict[str, Any]] = [
        {
            "from": float(r["from"]),
            "to": float(r["to"]),
            "n": int(r["images"]),
            "confidence": float(r["confidence"]),
            "accuracy": float(r["accuracy"]),
            "sure": int(r["images"]) >= TIMID,
        }
        for r in rows
    ]
    both = {"scale": {"domain": [0, 100]}, "axis": {"tickCount": 5}}
    tips = [
        tip("confidence", "mean confidence, %", ".1f"),
        tip("accuracy", "right, %", ".1f"),
        tip("n", "test images", "d"),
    ]
    drawn = spec(
        values,
        height=260,
        layer=[
            {
                "mark": {"type": "rect", "style": "bin"},
                "encoding": {
                    "x": quantity("from", "confidence, %", **both),
                    "x2": {"field": "to"},
                    "y": quantity("accuracy", "right, %", **both),
                    "y2": {"datum": 0},
                    "opacity": {"condition": {"test": "datum.sure", "value": 1}, "value": 0.4},
                    "tooltip": tips,
                },
            },
            {
                "data": {"values": [{"x": 0, "y": 0}, {"x": 100, "y": 100}]},
                "mark": {"type": "line", "style": "diagonal"},
                "encoding": {"x": quantity("x", "confidence, %"), "y": quantity("y", "right, %")},
            },
            {
                "mark": {
                    "type": "point",
                    "filled": True,
                    "size": 50,
                    "opacity": 1,
                    "style": "marker",
                },
                "encoding": {
                    "x": quantity("confidence", "confidence, %"),
                    "y": quantity("accuracy", "right, %"),
                    "tooltip": tips,
                },
            },
        ],
    )
    ece = results.metrics.get("ece", {}).get(branch)
    error = "" if ece is None else f"Calibration error (ECE) {ece:.1f} %."
    return Chart(
        f"reliability-{branch}",
        f"Reliability: {BRANCH_TITLES[branch]}",
        f"Accuracy over confidence in {len(values)} bins. {error}",
        drawn,
        f"{error} On the dashed line, 80 % confident means right 80 times in 100; below it, overconfident. Pale "
        f"bars: fewer than {TIMID} test images.",
        f"evaluate@{results.name}",
        f"results/tables/{results.name}/reliability.csv",
        ("confidence, %", "mean, %", "right, %", "test images"),
        [
            (f"{v['from']:.0f}–{v['to']:.0f}", v["confidence"], v["accuracy"], v["n"])
            for v in values
        ],
        columns=4,
    )


def embedding_map(results: ProblemResults) -> Chart:
    """Draw target images on the plane of their principal components, coloured by class."""
    values: list[dict[str, Any]] = [
        {
            "x": float(r["x"]),
            "y": float(r["y"]),
            "class": r["class"],
            "split": r["split"],
            "predicted": r["predicted"] or "–",
            "wrong": bool(r["predicted"]) and r["predicted"] != r["class"],
        }
        for r in results.map
    ]
    present = {v["class"] for v in values}
    names = [name for name in results.class_names if name in present]
    few = len(names) <= COLOURED_CLASSES
    axis = {"labels": False, "ticks": False, "grid": False, "domain": False}
    colour: dict[str, Any] = {"field": "class", "type": "nominal", "legend": None}
    colour["scale"] = {"domain": names} if few else {"domain": names, "scheme": "turbo"}
    place = {"x": quantity("x", None, axis=axis), "y": quantity("y", None, axis=axis)}
    tips = [tip("class", "class"), tip("split", "split"), tip("predicted", "predicted")]
    shape = {"shape": {**colour, "scale": {"domain": names}}} if few else {}
    layer: list[dict[str, Any]] = [
        {
            "mark": {"type": "point", "filled": True, "size": 34, "opacity": 0.75},
            "encoding": {**place, "color": colour, **shape, "tooltip": tips},
        },
        {
            "transform": [{"filter": "datum.wrong"}],
            "mark": {
                "type": "point",
                "shape": "circle",
                "size": 150,
                "style": "ring",
                "filled": False,
            },
            "encoding": {**place, "tooltip": tips},
        },
    ]
    if len(names) <= NAMED_CLASSES:
        layer += _class_names(axis)
    wrong = sum(v["wrong"] for v in values)
    return Chart(
        "map",
        "Where the target's images lie",
        f"Scatter plot of {len(values)} target images of {len(names)} classes on two axes; {wrong} of the test images "
        "among them are ringed as mistakes.",
        spec(values, height=340, layer=layer),
        "The vision model's embeddings of target images, flattened to their two principal components; colour, shape "
        "and name are the true class. A ring: a test image of the first seed that the adapted model gets wrong.",
        f"evaluate@{results.name}",
        f"results/tables/{results.name}/map.csv",
    )


def _class_names(axis: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the layers that write each class's name in the middle of its images, with a halo."""
    middle = {
        "x": {"aggregate": "median", "field": "x", "type": "quantitative", "axis": axis},
        "y": {"aggregate": "median", "field": "y", "type": "quantitative", "axis": axis},
        "text": {"field": "class", "type": "nominal"},
    }
    return [
        {"mark": {"type": "text", "style": style}, "encoding": middle} for style in ("halo", "name")
    ]


def _long(names: Sequence[str]) -> bool:
    return sum(map(len, names)) > 40
