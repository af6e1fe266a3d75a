"""Where the target's images lie, on a plane."""

from __future__ import annotations

from typing import Any

from pipeline.report.page.chart import Chart, Spec, dot, quantity, spec, tip
from pipeline.report.page.problem_results import ProblemResults

NAMED_CLASSES = 40  # up to so many, each class's name stands among its images
COLOURED_CLASSES = 10  # up to so many, each class has a colour and shape of its own
BARE = {"labels": False, "ticks": False, "grid": False, "domain": False}


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
    wrong = sum(v["wrong"] for v in values)
    return Chart(
        "map",
        "Where the target's images lie",
        f"Scatter plot of {len(values)} target images of {len(names)} classes; {wrong} test images are ringed: "
        "mistakes.",
        _scatter(values, names),
        "The vision model's embeddings of target images, flattened to their two principal components; colour, shape "
        "and name are the true class. A ring: a test image of the first seed that the adapted model gets wrong.",
        results.origin("map.csv"),
    )


def _scatter(values: list[dict[str, Any]], names: list[str]) -> Spec:
    few = len(names) <= COLOURED_CLASSES
    by_class: Spec = {"field": "class", "type": "nominal", "legend": None}
    by_class["scale"] = {"domain": names}
    colour = by_class if few else {**by_class, "scale": {"domain": names, "scheme": "turbo"}}
    place = {"x": quantity("x", None, axis=BARE), "y": quantity("y", None, axis=BARE)}
    tips = [tip("class", "class"), tip("split", "split"), tip("predicted", "predicted")]
    points = {
        "mark": {**dot(34), "opacity": 0.75},
        "encoding": {
            **place,
            "color": colour,
            **({"shape": by_class} if few else {}),
            "tooltip": tips,
        },
    }
    rings = {
        "transform": [{"filter": "datum.wrong"}],
        "mark": {
            "type": "point",
            "shape": "circle",
            "size": 150,
            "filled": False,
            "style": "ring",
        },
        "encoding": {**place, "tooltip": tips},
    }
    words = _class_names() if len(names) <= NAMED_CLASSES else []
    return spec(values, height=340, layer=[points, rings, *words])


def _class_names() -> list[Spec]:
    """Return the layers that write each class's name in the middle of its images, with a halo."""
    middle = {"aggregate": "median", "type": "quantitative", "axis": BARE}
    encoding = {
        "x": {"field": "x", **middle},
        "y": {"field": "y", **middle},
        "text": {"field": "class", "type": "nominal"},
    }
    return [
        {"mark": {"type": "text", "style": style}, "encoding": encoding}
        for style in ("halo", "name")
    ]
