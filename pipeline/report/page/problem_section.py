"""One problem on the page: a line of figures, its charts, its pictures. Drawn when it is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.report.page import calibration_charts, method_charts, sweep_chart, task_charts
from pipeline.report.page.chart import Chart
from pipeline.report.page.confusion_chart import confusion
from pipeline.report.page.embedding_map import embedding_map
from pipeline.report.page.markup import anchor, json_island, plain_table, text
from pipeline.report.page.pictures import ProblemPictures
from pipeline.report.page.problem_results import ProblemResults


def problem_charts(results: ProblemResults) -> list[Chart]:
    """Return the charts of a problem, in the page's order."""
    lost = task_charts.forgetting(results)
    return [
        task_charts.accuracy_over_tasks(results),
        task_charts.accuracy_matrix(results),
        *([lost] if lost else []),
        confusion(results),
        *([embedding_map(results)] if results.map else []),  # a private target has none
        *([method_charts.methods(results)] if results.methods else []),
        calibration_charts.weights(results),
        *(
            calibration_charts.reliability(results, branch)
            for branch in calibration_charts.BRANCH_TITLES
        ),
        *(sweep_chart.sensitivity(results, swept) for swept in results.sweeps),
    ]


def figure(chart: Chart, place: str) -> str:
    """Return a chart's place: title, drawing, how to read it, values as a table, where they come from."""
    ident = f"{place}-{chart.key}"
    values = ""
    if chart.rows:
        table = plain_table(chart.title, chart.header, chart.rows)
        values = f'<details class="values"><summary>Values</summary>{table}</details>'
    return (
        f'<figure class="w{chart.columns}" id="{text(ident)}"><figcaption>{text(chart.title)}'
        f'<button type="button" class="save" hidden aria-label="Save {text(chart.title)} as SVG">SVG</button>'
        "</figcaption>"
        f'<div class="chart" role="img" aria-label="{text(chart.summary)}" data-charts="charts-{text(place)}" '
        f'data-chart="{text(chart.key)}"><div></div></div><p class="note">{text(chart.note)}</p>{values}'
        f'<p class="made"><code>dvc repro {text(chart.origin.stage)}</code> '
        f"<span>→ {text(chart.origin.file)}</span></p></figure>"
    )


def problem_section(results: ProblemResults, pictures: ProblemPictures, *, is_open: bool) -> str:
    """Return a problem's section."""
    place = anchor(results.name)
    charts = problem_charts(results)
    drawn = "".join(figure(chart, place) for chart in charts)
    if not results.sweeps:
        drawn += (
            '<figure class="w12 absent"><figcaption>Sensitivity to D and sigma</figcaption>'
            '<p class="note">Not measured '
            f"for this problem: add <code>{text(results.name)}</code> to <code>swept</code> in params.yaml and run "
            "<code>dvc repro</code>.</p></figure>"
        )
    shown = _views(results, pictures) + _mistakes(results, pictures)
    return (
        f'<details class="problem" id="{text(place)}"{" open" if is_open else ""}>'
        f"<summary><h3>{text(results.title)}</h3>{_figures(results)}</summary>"
        f'<div class="grid">{drawn}{shown}</div>'
        f"{json_island(f'charts-{place}', {chart.key: chart.spec for chart in charts})}</details>"
    )


def _figures(results: ProblemResults) -> str:
    """Return the line that says most."""
    told = results.metrics
    gain = told["A_T"] - told["source_only_A_T"]
    parts = (
        (f"{told['A_T']:.1f} ± {told['A_T_sd']:.1f} %", "final accuracy"),
        (f"{gain:+.1f}", "over source only"),
        (f"{told['forgetting']:.1f}", "forgotten"),
        (_right(told), "pseudo-labels right"),
    )
    inside = "".join(f"<span><b>{text(value)}</b> {text(what)}</span>" for value, what in parts)
    return f'<span class="figures">{inside}</span>'


def _right(told: Mapping[str, Any]) -> str:
    """Return how many pseudo-labels are right; where none was kept, nothing is."""
    right = told.get("pseudo_label_accuracy")
    return "no" if right is None else f"{right:.1f} %"


def _picture(key: str, alt: str) -> str:
    return f'<img data-picture="{text(key)}" alt="{text(alt)}">'


def _views(results: ProblemResults, pictures: ProblemPictures) -> str:
    """Return examples of the three views, or the word that there are no images."""
    rows = [
        row for row in results.shown if row["role"] == "example" and row["path"] in pictures.views
    ]
    if not rows:
        return _absent("The views of an image", pictures.missing)
    items = []
    for row in rows:
        actual = row["actual"]
        views = "".join(
            f"<figure>{_picture(key, f'{actual}, view {view}')}"
            f"<figcaption>{text(view)}</figcaption></figure>"
            for view, key in pictures.views[row["path"]].items()
        )
        items.append(
            f'<div class="views" role="group" aria-label="{text(actual)}"><p>{text(actual)}</p>{views}</div>'
        )
    return (
        '<figure class="w12"><figcaption>The views of an image</figcaption>'
        f'<div class="examples">{"".join(items)}</div><p class="note"><b>zeros</b>: the finest details removed. '
        "<b>rand</b>: noise in their place. <b>removed</b>: what went, at full contrast. "
        f"{text(pictures.views_note)}</p></figure>"
    )


def _mistakes(results: ProblemResults, pictures: ProblemPictures) -> str:
    """Return the mistakes that were made with most confidence; a table where there are no images."""
    title = "Most confident mistakes"
    rows = [row for row in results.shown if row["role"] == "mistake"]
    if not rows:
        return _absent(title, "There is none: every test image of every seed was right.")
    if not pictures.mistakes:
        table = plain_table(
            title,
            ("image", "is", "taken for", "confidence, %", "KLDA says", "CLIP says"),
            [
                (
                    r["path"],
                    r["actual"],
                    r["fused_says"],
                    float(r["fused_confidence"]),
                    r["klda_says"],
                    r["clip_says"],
                )
                for r in rows
            ],
        )
        return (
            f'<figure class="w12"><figcaption>{title}</figcaption>{table}'
            f'<p class="note">{text(pictures.missing)}</p></figure>'
        )
    cards = "".join(_card(row, pictures.mistakes) for row in rows)
    return (
        f'<figure class="w12"><figcaption>{title}</figcaption><ul class="cards">{cards}</ul>'
        '<p class="note">Test images of any seed that the adapted model gets wrong after the last task, the most '
        "confident first; below each what the two branches say. Some are mislabelled: look before you blame the "
        "model.</p></figure>"
    )


def _card(row: Mapping[str, str], pictures: Mapping[str, str]) -> str:
    said = "".join(
        f"<span>{name}: {text(row[f'{branch}_says'])} {float(row[f'{branch}_confidence']):.0f}\u00a0%</span>"
        for branch, name in (("klda", "KLDA"), ("clip", "CLIP"))
    )
    key = pictures.get(row["path"])
    seen = (
        _picture(key, f"image labelled {row['actual']}")
        if key
        else '<span class="blank">no image</span>'
    )
    return (
        f"<li>{seen}<p><b>{text(row['actual'])}</b> taken for <b>{text(row['fused_says'])}</b></p>"
        f'<p class="said"><span>{float(row["fused_confidence"]):.0f}\u00a0% confident</span>{said}</p>'
        f'<p class="path" title="{text(row["path"])}">{text(row["path"].rsplit("/", 1)[-1])}</p></li>'
    )


def _absent(title: str, why: str) -> str:
    return (
        f'<figure class="w12 absent"><figcaption>{text(title)}</figcaption>'
        f'<p class="note">{text(why)}</p></figure>'
    )
