"""Build charts: a Vega-Lite specification with the texts around it.

Both come from a template in templates/charts; values between ``{{ }}`` are written as JSON.
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
    "$schema": "https://vega.github.io/schema/vega-lite/v6.json",  # an identifier; nothing is fetched
    "width": "container",  # as wide as the element it is drawn into
    "autosize": {"type": "fit-x", "contains": "padding"},
}


class Origin(NamedTuple):
    """The DVC stage that writes the values of a chart, and their file."""

    stage: str
    file: Path


@dataclass(frozen=True)
class Chart:
    """A chart on the page."""

    key: str
    origin: Origin
    title: str
    summary: str  # what the picture shows, for screen readers
    note: str  # how to read the chart
    spec: Spec
    header: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()  # the values as a table, if there are few
    columns: int = 6  # width on the page, out of twelve columns


def draw(
    template: str, values: DataFrame, origin: Origin, *, key: str = "", rows: DataFrame | None = None, **variables: Any
) -> Chart:
    """Return a chart from a template in templates/charts, which gets values and rows as dictionaries.

    ``key`` names the chart within its section of the page (default: the template's name). The table below it has the
    columns of ``rows`` (default: the values) that the template's ``header`` gives titles to, or all without a header.
    """
    values = values.drop(columns="of", errors="ignore")
    header = {} if rows is None else {name: name for name in rows}
    rows = values if rows is None else rows
    records = {"values": values.to_dict("records"), "rows": rows.astype(object).to_dict("records")}
    rendered = json.loads(_templates().get_template(f"{template}.json").render(**records, **variables))
    spec = {**FRAME, "data": {"values": records["values"]}, **rendered.pop("spec")}
    header = rendered.pop("header", header)
    table = rows[list(header)].astype(object).to_numpy().tolist()
    return Chart(key or template, origin, spec=spec, header=list(header.values()), rows=table, **rendered)


@functools.cache
def _templates() -> Environment:
    environment = Environment(  # noqa: S701  the result is JSON and parsed as JSON
        loader=PackageLoader("pipeline.report.page", "templates/charts"), finalize=json.dumps, undefined=StrictUndefined
    )
    functions = (dot, format_figure, percent_scale, series, tips)
    environment.globals |= {function.__name__: function for function in functions}
    return environment


def series(name: str, domain: Sequence[str]) -> Spec:
    """Return the encoding of a few names by colour or shape; using it for both gives a single legend."""
    legend = {"orient": "top", "title": None, "symbolOpacity": 1}
    return {"field": name, "type": "nominal", "scale": {"domain": list(domain)}, "legend": legend, "title": None}


def dot(size: int, style: str | None = None) -> Spec:
    """Return a filled point, the mark of a single value."""
    mark: Spec = {"type": "point", "filled": True, "size": size, "opacity": 1}
    return {**mark, "style": style} if style else mark


def tips(*lines: Sequence[str]) -> list[Spec]:
    """Return the lines of a tooltip, each given as field, title and, for numbers, format."""
    return [
        {"field": field, "type": "quantitative" if formats else "nominal", "title": title}
        | ({"format": formats[0]} if formats else {})
        for field, title, *formats in lines
    ]


def percent_scale(values: Sequence[Mapping[Any, Any]], *fields: str, step: int = 5) -> Spec:
    """Return the scale of an axis from a round percentage below all values of these fields up to 100."""
    lowest = min((value[field] for value in values for field in fields), default=0)
    floor = max(0, min(90, int(lowest // step) * step))
    return {"domain": [floor, 100], "zero": False}
