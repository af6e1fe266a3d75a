"""Where the target's images lie, on a plane."""

from __future__ import annotations

from statistics import median
from typing import Any

from pipeline.report.page.chart import Chart, Spec, dot, quantity, spec, tip
from pipeline.report.page.problem_results import ProblemResults

NAMED_CLASSES = 40  # up to so many, each class's name stands among its images
COLOURED_CLASSES = 10  # up to so many, each class has a colour and shape of its own
WIDTH, HEIGHT = 560, 340  # pixels, of the map on a desktop
LETTER, LINE = 8, 16  # pixels, of the names
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
    place = {axis: _axis(axis, values) for axis in ("x", "y")}
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
    words = _class_names(values, names, place) if len(names) <= NAMED_CLASSES else []
    return spec(values, height=HEIGHT, layer=[points, rings, *words])


def _axis(axis: str, values: list[dict[str, Any]]) -> Spec:
    """Return an axis whose range is that of all images, also for layers that show few of them or none."""
    there = [v[axis] for v in values]
    domain = [min(there, default=0), max(there, default=1)]
    return quantity(axis, None, axis=BARE, scale={"domain": domain, "padding": 14, "nice": False})


def _class_names(values: list[dict[str, Any]], names: list[str], place: Spec) -> list[Spec]:
    """Return the layers that write each class's name in the middle of its images, with a halo."""
    pixel = {
        axis: (max(v[axis] for v in values) - min(v[axis] for v in values) or 1.0) / size
        for axis, size in (("x", WIDTH), ("y", HEIGHT))
    }
    middles = {
        name: (
            median(v["x"] for v in values if v["class"] == name) / pixel["x"],
            median(v["y"] for v in values if v["class"] == name) / pixel["y"],
        )
        for name in names
    }
    labels = [
        {"class": name, "x": round(x * pixel["x"], 4), "y": round(y * pixel["y"], 4)}
        for name, (x, y) in spread_labels(middles).items()
    ]
    encoding = {**place, "text": {"field": "class", "type": "nominal"}}
    written = {"data": {"values": labels}, "encoding": encoding}
    return [{**written, "mark": {"type": "text", "style": style}} for style in ("halo", "name")]


def spread_labels(places: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Return the labels' places, in pixels, moved up until none covers another."""
    placed: dict[str, tuple[float, float]] = {}
    for name, (x, y) in sorted(places.items(), key=lambda one: (one[1][1], one[0])):
        free = y
        for other, (there_x, there_y) in sorted(placed.items(), key=lambda one: one[1][1]):
            wide = LETTER * (len(name) + len(other)) / 2
            if abs(x - there_x) < wide and abs(free - there_y) < LINE:
                free = there_y + LINE
        placed[name] = (x, free)
    return placed
