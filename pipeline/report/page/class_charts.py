"""Charts of the classes: which is mistaken for which, and a map of the target's images."""

from __future__ import annotations

from pandas import DataFrame

from pipeline.report.page.chart import Chart, Spec, chart_spec, tips
from pipeline.report.page.problem_results import ProblemResults

NAMED_CLASSES = 40  # up to so many classes, axes and the map carry the classes' names
WRITTEN_CLASSES = 12  # up to so many classes, cells of the confusion matrix carry their value
LISTED = 10
DRAWN = 4000  # cells; of hundreds of classes the rarest confusions, single images, are left out
LEVEL_LETTERS = 40  # of all names together; more do not fit side by side

COLOURED_CLASSES = 10  # up to so many classes, each has a colour and shape of its own on the map
WIDTH, HEIGHT = 560, 340  # pixels of the map on a desktop
LETTER, LINE = 8, 16  # pixels of a letter and of a line of text
BARE = {"labels": False, "ticks": False, "grid": False, "domain": False}


def confusion(results: ProblemResults) -> Chart:
    """Draw which class is predicted for which; each row adds up to 100."""
    cells = results.tables["confusion"].drop(columns="of").rename(columns={"images": "n"})
    cells = cells[cells["n"] > 0]
    names = _names_of(results, {*cells["actual"], *cells["predicted"]})
    wrong = cells[cells["actual"] != cells["predicted"]]
    wrong = wrong.sort_values(["n", "actual", "predicted"], ascending=[False, True, True])
    worst = "No image was taken for another class."
    if not wrong.empty:
        first = wrong.iloc[0]
        worst = f"The most frequent mistake: {first['actual']} taken for {first['predicted']}, {first['n']} times."
    left_out = f" Of {len(cells)} cells the {DRAWN} most frequent are drawn."
    return Chart(
        "confusion",
        "Confusion matrix",
        f"Heat map of {len(names)} classes. {worst}",
        _cells(cells, names),
        "Share of a class's test images, in percent, after the last task, all seeds together. Mistakes are off "
        "the diagonal; the table has the most frequent ones."
        + (left_out if len(cells) > DRAWN else ""),
        results.origin("confusion"),
        header=("is", "taken for", "times", "% of its images"),
        rows=wrong[:LISTED].astype(object).to_numpy().tolist(),
    )


def _names_of(results: ProblemResults, present: set[str]) -> list[str]:
    return [name for name in results.class_names if name in present]


def _cells(cells: DataFrame, names: list[str]) -> Spec:
    drawn = cells.sort_values("n", ascending=False, kind="stable")[:DRAWN].sort_index()
    many = len(names) > NAMED_CLASSES
    axis: Spec = {"labels": False, "ticks": False} if many else {}
    level = {**axis, "labelAngle": 0 if sum(map(len, names)) <= LEVEL_LETTERS else -40}
    encoding = {"type": "ordinal", "sort": None, "scale": {"domain": names}}
    return chart_spec(
        "heat_map",
        drawn.to_dict("records"),
        height=max(340, min(520, 26 * len(names))),
        field="share",
        x={**encoding, "field": "predicted", "title": "predicted", "axis": level},
        y={**encoding, "field": "actual", "title": "actual", "axis": axis},
        # a power below 1, to make a few percent visible
        scale={"type": "pow", "exponent": 0.3 if many else 0.5, "domain": [0, 100]},
        tips=tips(
            *(("actual", "is"), ("predicted", "taken for"), ("n", "times", "d")),
            ("share", "of its images, %", ".1f"),
        ),
        lines=not many,  # they would hide cells one pixel wide
        written=(".0f", 30) if len(names) <= WRITTEN_CLASSES else None,
    )


def embedding_map(results: ProblemResults) -> Chart | None:
    """Draw target images on the plane of their principal components; None where the target is private."""
    table = results.tables["map"]
    if table.empty:
        return None
    wrong = (table["predicted"] != "") & (table["predicted"] != table["class"])
    table = table.assign(predicted=table["predicted"].replace("", "–"), wrong=wrong)
    names = _names_of(results, set(table["class"]))
    return Chart(
        "map",
        "Map of the target's images",
        f"Scatter plot of {len(table)} target images of {len(names)} classes; {wrong.sum()} test images are ringed: "
        "mistakes.",
        chart_spec(
            "map",
            table.to_dict("records"),
            height=HEIGHT,
            x=_axis("x", table),
            y=_axis("y", table),
            names=names,
            few=len(names) <= COLOURED_CLASSES,
            labels=_class_names(table, names) if len(names) <= NAMED_CLASSES else [],
        ),
        "The vision model's embeddings of target images, projected onto their two principal components; colour, "
        "shape and name are the true class. A ring marks a test image of the first seed that the adapted model gets "
        "wrong.",
        results.origin("map"),
    )


def _axis(axis: str, table: DataFrame) -> Spec:
    """Return an axis that spans all images, also for layers that show only some of them."""
    domain = [float(table[axis].min()), float(table[axis].max())]
    scale = {"domain": domain, "padding": 14, "nice": False}
    return {"field": axis, "type": "quantitative", "title": None, "axis": BARE, "scale": scale}


def _class_names(table: DataFrame, names: list[str]) -> list[dict[str, object]]:
    """Return where each class's name is written: in the middle of its images, if there is room."""
    span = (table[["x", "y"]].max() - table[["x", "y"]].min()).replace(0, 1)
    unit = span / [WIDTH, HEIGHT]
    middle = table.groupby("class")[["x", "y"]].median() / unit
    pixels = {name: (middle.loc[name, "x"], middle.loc[name, "y"]) for name in names}
    return [
        {"class": name, "x": round(x * unit["x"], 4), "y": round(y * unit["y"], 4)}
        for name, (x, y) in spread_labels(pixels).items()
    ]


def spread_labels(centres: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Return the positions of labels, in pixels, moved up until none covers another."""
    placed: dict[str, tuple[float, float]] = {}
    for name, (x, y) in sorted(centres.items(), key=lambda item: (item[1][1], item[0])):
        free = y
        for other, (other_x, other_y) in sorted(placed.items(), key=lambda item: item[1][1]):
            wide = LETTER * (len(name) + len(other)) / 2
            if abs(x - other_x) < wide and abs(free - other_y) < LINE:
                free = other_y + LINE
        placed[name] = (x, free)
    return placed
