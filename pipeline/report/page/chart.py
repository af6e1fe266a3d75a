"""A chart before it is drawn: its Vega-Lite specification, and all that is said about it in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Spec = dict[str, Any]
Record = Mapping[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # a name; nothing is fetched


class Origin(NamedTuple):
    """Where a chart's values come from: the stage that makes them, the file they are in."""

    stage: str
    file: str


@dataclass(frozen=True)
class Chart:
    """One figure of the page.

    summary: what the picture shows, for those who do not see it. note: how to read it. header and rows: the values as
    a table, where they are few. columns: how wide, of twelve.
    """

    key: str
    title: str
    summary: str
    spec: Spec
    note: str
    origin: Origin
    header: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = field(default=())
    columns: int = 6


def spec(values: Sequence[Record], *, height: int, **parts: Any) -> Spec:
    """Return a specification that is as wide as its place on the page."""
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": [dict(value) for value in values]},
        **parts,
    }


def quantity(name: str, title: str | None, **more: Any) -> Spec:
    """Return an encoding of a number. Layers that share an axis give the same title, or theirs are strung together."""
    return {"field": name, "type": "quantitative", "title": title, **more}


def kind(name: str, title: str | None, **more: Any) -> Spec:
    """Return an encoding of a name or of a whole number that is one; its order is that of the values."""
    return {"field": name, "type": "ordinal", "title": title, "sort": None, **more}


def series(name: str, domain: Sequence[str]) -> Spec:
    """Return an encoding that tells a few names apart; colour and shape of the same one share a legend."""
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


def tip(name: str, title: str, form: str | None = None) -> Spec:
    """Return a line of the text that appears under the pointer."""
    if form is None:
        return {"field": name, "type": "nominal", "title": title}
    return {"field": name, "type": "quantitative", "title": title, "format": form}


def percent_floor(values: Sequence[float], step: int = 5, highest: int = 90) -> int:
    """Return a round percentage at or below every value, from which an axis may start."""
    return max(0, min(highest, int(min(values, default=0) // step) * step))
