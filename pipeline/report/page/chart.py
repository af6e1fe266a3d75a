"""A chart before it is drawn: its Vega-Lite specification and its description in words.

The specifications are templates in templates/charts; what a template puts between ``{{ }}`` is written as JSON.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # a name; nothing is fetched


class Origin(NamedTuple):
    """Where a chart's values come from: the DVC stage that writes them, and their file."""

    stage: str
    file: str


@dataclass(frozen=True)
class Chart:
    """One figure of the page."""

    key: str
    title: str
    summary: str  # what the picture shows, for screen readers
    spec: Spec
    note: str  # how to read the chart
    origin: Origin
    header: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()  # the values as a table, where they are few
    columns: int = 6  # width on the page, of twelve columns


def chart_spec(
    template: str, values: Sequence[Mapping[Any, Any]], *, height: int, **variables: Any
) -> Spec:
    """Return a specification, as wide as the element it is drawn into and ``height`` pixels high.

    ``template`` is a file of templates/charts, which asks for the ``variables``.
    """
    drawing = json.loads(_templates().get_template(f"{template}.json").render(**variables))
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": list(values)},
        **drawing,
    }


@functools.cache
def _templates() -> Environment:
    environment = Environment(  # noqa: S701  the result is JSON, and is parsed as such
        loader=PackageLoader("pipeline.report.page", "templates/charts"),
        finalize=json.dumps,
        undefined=StrictUndefined,
    )
    environment.globals |= {"series": series, "dot": dot, "tips": tips}
    return environment


def series(name: str, domain: Sequence[str]) -> Spec:
    """Return the encoding of a few names by colour or shape; the same one for both gives one legend."""
    return {
        "field": name,
        "type": "nominal",
        "scale": {"domain": list(domain)},
        "legend": {"orient": "top", "title": None, "symbolOpacity": 1},
        "title": None,
    }


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


def percent_scale(values: Sequence[float], step: int = 5) -> Spec:
    """Return the scale of an axis from a round percentage below every value up to 100."""
    floor = max(0, min(90, int(min(values, default=0) // step) * step))
    return {"domain": [floor, 100], "zero": False}


def band(mean: float, sd: float) -> dict[str, float]:
    """Return the ends of mean ± sd, within 0 to 100."""
    return {"low": max(0.0, mean - sd), "high": min(100.0, mean + sd)}
