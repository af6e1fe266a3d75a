"""HTML as text: everything that comes from outside is escaped here, once."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any


def text(value: object) -> str:
    """Return a value as HTML text, safe in attributes too."""
    return html.escape(str(value), quote=True)


def json_island(name: str, value: Any) -> str:
    """Return data for the page's script; no text in it can end the element or open a comment."""
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for char in "<>&\u2028\u2029":
        plain = plain.replace(char, f"\\u{ord(char):04x}")
    return f'<script type="application/json" id="{text(name)}">{plain}</script>'


def anchor(name: str) -> str:
    """Return an id for a name of params.yaml, which no other part of the page has."""
    kept = (c if c.isascii() and (c.isalnum() or c in "-_") else f"_{ord(c):x}_" for c in name)
    return f"p-{''.join(kept)}"


def plain_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table whose first column names the row and whose other columns are figures or words."""
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in header)
    lines = []
    for first, *others in rows:
        cells = "".join(f"<td{_kind(value)}>{text(value)}</td>" for value in others)
        lines.append(f'<tr><th scope="row">{text(first)}</th>{cells}</tr>')
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{text(caption)}"><table>'
        f"<caption>{text(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def commands(*lines: str) -> str:
    """Return command lines to be typed."""
    return f'<pre tabindex="0"><code>{text(chr(10).join(lines))}</code></pre>'


def _kind(value: object) -> str:
    return ' class="n"' if isinstance(value, (int, float)) else ""
