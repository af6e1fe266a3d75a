"""A chart before it is drawn: its Vega-Lite specification and what is said about it.

Both are in a template of templates/charts; what a template puts between ``{{ }}`` is written as JSON.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from pandas import DataFrame

from pipeline.report.table import format_figure

Spec = dict[str, Any]

FRAME = {
    "$schema": "https://vega.github.io/schema/vega-lite/v6.json",  # a name; nothing is fetched
    "width": "container",  # as wide as the element it is drawn into
    "autosize": {"type": "fit-x", "contains": "padding"},
}


class Origin(NamedTuple):
    """Where the values of a chart come from: the DVC stage that writes them, and their file."""

    stage: str
    file: Path


@dataclass(frozen=True)
class Chart:
    """One figure of the page."""

    key: str
    origin: Origin
    title: str
    summary: str  # what the picture shows, for screen readers
    note: str  # how to read the chart
    spec: Spec
    header: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()  # the values as a table, where they are few
    columns: int = 6  # width on the page, of twelve columns


def draw(
    template: str, values: DataFrame, origin: Origin, *, key: str = "", rows: DataFrame | None = None, **variables: Any
) -> Chart:
    """Return the chart of a file of templates/charts, to which values and rows are given as dictionaries.

    ``key`` is the chart's name within its section of the page, the template's if omitted. The table below it has those
    columns of ``rows``, or of the values, to which the template's ``header`` gives titles; without it all of ``rows``.
    """
    values = values.drop(columns="of", errors="ignore")
    header = {} if rows is None else {name: name for name in rows}
    rows = values if rows is None else rows
    given = {"values": values.to_dict("records"), "rows": rows.astype(object).to_dict("records")}
    described = json.loads(_templates().get_template(f"{template}.json").render(**given, **variables))
    spec = {**FRAME, "data": {"values": given["values"]}, **described.pop("spec")}
    header = described.pop("header", header)
    table = rows[list(header)].astype(object).to_numpy().tolist()
    return Chart(key or template, origin, spec=spec, header=list(header.values()), rows=table, **described)


@functools.cache
def _templates() -> Environment:
    environment = Environment(  # noqa: S701  the result is JSON, and is parsed as such
        loader=PackageLoader("pipeline.report.page", "templates/charts"), finalize=json.dumps, undefined=StrictUndefined
    )
    functions = (dot, format_figure, percent_scale, series, tips)
    environment.globals |= {function.__name__: function for function in functions}
    return environment


def series(name: str, domain: Sequence[str]) -> Spec:
    """Return the encoding of a few names by colour or shape; the same one for both gives one legend."""
    legend = {"orient": "top", "title": None, "symbolOpacity": 1}
    return {"field": name, "type": "nominal", "scale": {"domain": list(domain)}, "legend": legend, "title": None}


def dot(size: int, style: str | None = None) -> Spec:
    """Return the mark of a single value."""
    mark: Spec = {"type": "point", "filled": True, "size": size, "opacity": 1}
    return {**mark, "style": style} if style else mark


def tips(*lines: Sequence[str]) -> list[Spec]:
    """Return the lines of a tooltip: field, title and, of a number, its format."""
    return [
        {"field": field, "type": "quantitative" if form else "nominal", "title": title}
        | ({"format": form[0]} if form else {})
        for field, title, *form in lines
    ]


def percent_scale(values: Sequence[Mapping[Any, Any]], *fields: str, step: int = 5) -> Spec:
    """Return the scale of an axis from a round percentage below every value of some fields up to 100."""
    lowest = min((value[field] for value in values for field in fields), default=0)
    floor = max(0, min(90, int(lowest // step) * step))
    return {"domain": [floor, 100], "zero": False}
