"""What arrived in a stream, step by step: shares of the classes, and how sure the model is."""

from __future__ import annotations

from pipeline.problem.step_results import ESTIMATE_ERROR
from pipeline.report.page.chart import Chart, Origin, chart_spec, percent_scale, tips
from pipeline.report.page.stream_results import StreamResults

FIGURES = {
    "estimated_accuracy": "estimated accuracy",
    "mean_confidence": "mean confidence",
    "agreement": "branches agree",
}
SHOWN_CLASSES = 30
WRITTEN_STEPS = 12  # up to so many steps, cells carry their value
HEIGHT = 250


def _step_names(results: StreamResults) -> list[str]:
    return [step.step.partition("-")[2] for step in results.steps]


def _origin(results: StreamResults) -> Origin:
    return Origin(results.origin.stage, results.origin.file.removesuffix(".csv") + ".json")


def confidence_over_time(results: StreamResults) -> Chart:
    """Draw what can be said of each step without labels."""
    names = _step_names(results)
    rows = [
        (name, *(round(100 * getattr(step, figure), 1) for figure in FIGURES))
        for name, step in zip(names, results.steps, strict=True)
    ]
    values = [
        {"step": name, "figure": title, "value": value}
        for name, *figures in rows
        for title, value in zip(FIGURES.values(), figures, strict=True)
    ]
    last = rows[-1]
    return Chart(
        "confidence",
        "How sure the model is, step by step",
        f"Lines over {len(rows)} steps; in the last one the estimated accuracy is {last[1]} %, the mean confidence "
        f"{last[2]} %, and the branches agree on {last[3]} % of the images.",
        chart_spec(
            "stream",
            values,
            height=HEIGHT,
            figures=list(FIGURES.values()),
            scale=percent_scale([value["value"] for value in values]),
        ),
        "Made without labels, so read a fall as an alarm, not as a score: where labels exist, the estimate is off by "
        f"{ESTIMATE_ERROR} points on average (docs/how-to/streams.md).",
        _origin(results),
        header=("step", *(f"{title}, %" for title in FIGURES.values())),
        rows=rows,
        columns=6,
    )


def class_shares(results: StreamResults) -> Chart:
    """Draw the share of every class among the labels of each step."""
    names = _step_names(results)
    largest: dict[str, float] = {}
    for step in results.steps:
        for name, share in step.shares.items():
            largest[name] = max(share, largest.get(name, 0.0))
    shown = sorted(sorted(largest, key=lambda name: -largest[name])[:SHOWN_CLASSES])
    values = [
        {"step": name, "class": c, "share": round(100 * step.shares[c], 1)}
        for name, step in zip(names, results.steps, strict=True)
        for c in shown
        if c in step.shares
    ]
    top = 100 * max(largest.values())
    axis = {"type": "ordinal", "title": None}
    left_out = len(largest) - len(shown)
    most = max(results.steps[-1].shares, key=results.steps[-1].shares.__getitem__)
    return Chart(
        "shares",
        "Shares of the classes, step by step",
        f"Heat map of {len(shown)} classes by {len(names)} steps; the most frequent class of the last step is {most}.",
        chart_spec(
            "heat_map",
            values,
            height=max(HEIGHT, 18 * len(shown)),
            field="share",
            x={
                **axis,
                "field": "step",
                "sort": names,
                "axis": {"labelAngle": 0, "labelOverlap": True},
            },
            y={**axis, "field": "class", "sort": shown},
            scale={"domain": [0, top], "clamp": True},
            tips=tips(("step", "step"), ("class", "class"), ("share", "share, %", ".1f")),
            lines=True,
            written=(".0f", top / 2) if len(names) <= WRITTEN_STEPS else None,
        ),
        "Percent of a step's images taken for each class; an empty cell: the step's list of classes leaves it out."
        + (f" The {left_out} rarest classes are not drawn." if left_out > 0 else ""),
        _origin(results),
        header=("class", *names),
        rows=[
            (c, *(round(100 * s.shares[c], 1) if c in s.shares else "" for s in results.steps))
            for c in sorted(largest)
        ],
        columns=6,
    )


def stream_charts(results: StreamResults) -> list[Chart]:
    """Return the charts of a stream, in the page's order."""
    return [confidence_over_time(results), class_shares(results)]
