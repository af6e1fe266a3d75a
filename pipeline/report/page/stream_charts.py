"""The values of the charts of a stream, step by step; how they are drawn and described is in templates/charts."""

from __future__ import annotations

from pandas import DataFrame

from pipeline.problem.step_results import ESTIMATE_ERROR
from pipeline.report.page.chart import Chart, draw
from pipeline.report.page.stream_results import StreamResults

FIGURES = {
    "estimated_accuracy": "estimated accuracy",
    "mean_confidence": "mean confidence",
    "agreement": "branches agree",
}
SHOWN_CLASSES = 30


def stream_charts(results: StreamResults) -> list[Chart]:
    """Return the charts of a stream, in the page's order."""
    return [confidence_over_time(results), class_shares(results)]


def confidence_over_time(results: StreamResults) -> Chart:
    """Draw what can be said of each step without labels."""
    table = DataFrame([step.model_dump(include={*FIGURES}) for step in results.steps])
    table = (100 * table[[*FIGURES]]).round(1).rename(columns=FIGURES)
    table.insert(0, "step", results.step_names())
    values = table.melt("step", var_name="figure", ignore_index=False)
    return draw(
        "stream",
        values.sort_index(kind="stable"),
        results.origin("json"),
        key="confidence",
        rows=table,
        figures=list(FIGURES.values()),
        last=table.iloc[-1, 1:].tolist(),
        steps=len(table),
        off=ESTIMATE_ERROR,
    )


def class_shares(results: StreamResults) -> Chart:
    """Draw the share of every class among the labels of each step."""
    names = results.step_names()
    shares = 100 * DataFrame([step.shares for step in results.steps], index=names).T.sort_index()
    largest = shares.max(axis=1).sort_values(ascending=False, kind="stable")
    shown = sorted(largest.index[:SHOWN_CLASSES])
    rows = shares.round(1).astype(object).where(shares.notna(), "")
    values = shares.loc[shown].round(1).rename_axis("class").reset_index()
    values = values.melt("class", names, "step", "share").dropna()
    return draw(
        "shares",
        values,
        results.origin("json"),
        rows=rows.reset_index(),
        steps=names,
        classes=shown,
        top=float(largest.iloc[0]),
        most=shares[names[-1]].idxmax(),
        left_out=len(shares) - len(shown),
    )
