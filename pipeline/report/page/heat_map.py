"""Heat maps: cells in a colour ramp, with their values written on them where there is room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.report.page.chart import Record, Spec, quantity, spec


def heat_map(
    values: Sequence[Record],
    field: str,
    *,
    x: Spec,
    y: Spec,
    scale: Spec,
    tips: Sequence[Spec],
    height: int,
    written: tuple[str, float] | None,
    lines: bool = True,
) -> Spec:
    """Return the specification of a heat map of ``field``.

    written: how the values are written on the cells, and from which value on the cell is the ramp's far half.
    lines: between the cells; where these are a pixel wide, lines would be all that is seen.
    """
    legend = {"title": "%", "gradientLength": 150}
    cells = {
        "mark": {"type": "rect", "style": "cell-rect"} if lines else "rect",
        "encoding": {"color": quantity(field, None, scale=scale, legend=legend)},
    }
    words = _words(field, *written) if written else []
    # the words tell the values too: they lie on the middle of the cells, where people point
    encoding = {"x": x, "y": y, "tooltip": list(tips)}
    return spec(values, height=height, encoding=encoding, layer=[cells, *words])


def _words(field: str, form: str, middle: float) -> list[dict[str, Any]]:
    """Return the layers that write the values, each in a colour that reads on its cell."""
    return [
        {
            "transform": [{"filter": f"datum['{field}'] {test} {middle}"}],
            "mark": {"type": "text", "style": style},
            "encoding": {"text": {"field": field, "type": "quantitative", "format": form}},
        }
        for test, style in (("<", "on-low"), (">=", "on-high"))
    ]
