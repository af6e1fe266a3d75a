"""Who is taken for whom after the last task."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pipeline.report.page.chart import Chart, Spec, kind, tip
from pipeline.report.page.heat_map import heat_map
from pipeline.report.page.problem_results import ProblemResults

WRITTEN_CLASSES = 12  # up to so many, cells carry their value
NAMED_CLASSES = 40  # up to so many, axes carry the classes' names
LISTED = 10
DRAWN = 4000  # cells; of hundreds of classes the rarest confusions are left out: single images, single pixels
LEVEL_LETTERS = 40  # of all names together; more do not fit side by side


def confusion(results: ProblemResults) -> Chart:
    """Draw which class is taken for which, rows adding up to 100."""
    pairs = Counter((row["actual"], row["predicted"]) for row in results.confusion)
    totals = Counter(row["actual"] for row in results.confusion)
    values: list[dict[str, Any]] = [
        {"actual": a, "predicted": p, "n": n, "share": round(100 * n / totals[a], 2)}
        for (a, p), n in sorted(pairs.items())
    ]
    seen = {name for pair in pairs for name in pair}
    names = [name for name in results.class_names if name in seen]
    wrong = sorted(
        (v for v in values if v["actual"] != v["predicted"]),
        key=lambda v: (-v["n"], v["actual"], v["predicted"]),
    )
    said = "No image was taken for another class."
    if wrong:
        most = wrong[0]
        said = f"The most frequent mistake: {most['actual']} taken for {most['predicted']}, {most['n']} times."
    return Chart(
        "confusion",
        "Confusion matrix",
        f"Heat map of {len(names)} classes. {said}",
        _cells(_most_frequent(values), names),
        "Share of a class's test images, in percent, after the last task, all seeds together. Off the diagonal are "
        "mistakes; the table has the most frequent ones."
        + (
            f" Of {len(values)} cells the {DRAWN} most frequent are drawn."
            if len(values) > DRAWN
            else ""
        ),
        results.origin("confusion.csv"),
        header=("is", "taken for", "times", "% of its images"),
        rows=[(v["actual"], v["predicted"], v["n"], v["share"]) for v in wrong[:LISTED]],
    )


def _most_frequent(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return at most ``DRAWN`` cells, in the order they came in."""
    kept = sorted(range(len(values)), key=lambda i: (-values[i]["n"], i))[:DRAWN]
    return [values[i] for i in sorted(kept)]


def _cells(values: list[dict[str, Any]], names: list[str]) -> Spec:
    many = len(names) > NAMED_CLASSES
    axis: Spec = {"labels": False, "ticks": False} if many else {}
    angle = 0 if sum(map(len, names)) <= LEVEL_LETTERS else -40
    return heat_map(
        values,
        "share",
        x=kind(
            "predicted", "predicted", scale={"domain": names}, axis={**axis, "labelAngle": angle}
        ),
        y=kind("actual", "actual", scale={"domain": names}, axis=axis),
        # no straight scale, so that a few percent can be seen
        scale={"type": "pow", "exponent": 0.3 if many else 0.5, "domain": [0, 100]},
        tips=[
            tip("actual", "is"),
            tip("predicted", "taken for"),
            tip("n", "times", "d"),
            tip("share", "of its images, %", ".1f"),
        ],
        height=max(340, min(520, 26 * len(names))),
        lines=not many,
        written=(".0f", 30) if len(names) <= WRITTEN_CLASSES else None,
    )
