"""Format tables as CSV, Markdown, LaTeX, or text for a terminal."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pipeline.report.table import DAGGER, Cell, Column, Row, Table

if TYPE_CHECKING:
    from jinja2 import Template

NONE = "–"  # printed where there is no figure
TEX_LETTERS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "→": r"$\rightarrow$",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "–": "--",
    "σ": r"$\sigma$",
    **{letter: "\\" + letter for letter in "{}$&%#_"},
}
TEX_ESCAPES = str.maketrans(TEX_LETTERS)
MARKDOWN_ESCAPES = str.maketrans({letter: "\\" + letter for letter in "\\|*_`<["})


def to_csv(table: Table) -> str:
    """Return a line per row, with unrounded figures and deviations in columns of their own."""
    import pandas as pd

    lines = []
    for block in table.blocks:
        kind, group = ("published", "") if block.published else ("measured", block.heading)
        for row in block.rows:
            line: dict[str, object] = {"kind": kind, "group": group, table.row_kind: row.key, "title": row.title}
            line["source_samples"] = str(row.source_samples).lower()
            for column in table.columns:
                cell = row.cells.get(column.key)
                line[column.key] = cell and cell.mean
                if not column.signed and not column.count:
                    line[f"{column.key}_sd"] = cell and cell.sd
            lines.append({**line, "note": row.note})
    omitted = [] if table.row_kind == "method" else ["kind", "group", "title", "source_samples", "note"]
    return str(pd.DataFrame(lines, dtype=object).drop(columns=omitted).to_csv(index=False, lineterminator="\n"))


def to_markdown(table: Table) -> str:
    """Return a heading and a pipe table per section, with published figures in a separate table, then the notes."""
    return str(_template("table.md").render(table=table, letters=table.letters()))


def to_latex(table: Table) -> str:
    r"""Return a ``table*`` per section, at most as wide as the page, for use with ``\input``."""
    return str(_template("table.tex").render(table=table))


def to_text(table: Table) -> str:
    """Return aligned columns for a terminal, then the notes."""
    lines, letters = [table.caption], table.letters()
    for part in table.parts():
        grid = [[part.row_kind, *(f"{column.title} " for column in part.columns)]]
        for row in part.rows():
            cells = ((row.cells.get(column.key), column) for column in part.columns)
            texts = (cell_text(cell, c, plus_minus="±") + ("*" if cell and cell.best else " ") for cell, c in cells)
            grid.append([row_name(row, letters), *texts])
        header, *rest = align(grid)
        rows = iter(rest)
        lines.append(header)
        for block in part.blocks:
            lines += ["-" * len(header), *([block.heading] if block.heading else [])]
            lines += itertools.islice(rows, len(block.rows))
        lines.append("")
    lines += [f"{note_mark(mark)}{note}" for mark, note in table.footnotes("*")]
    return "\n".join(lines) + "\n"


def align(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Return rows of texts as lines with aligned columns, the first ``left`` flush left and the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if i < left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def cell_text(cell: Cell | None, column: Column, plus_minus: str = " ± ") -> str:
    """Return the text of a cell without emphasis."""
    return NONE if cell is None else cell.text(signed=column.signed, plus_minus=plus_minus)


def row_name(row: Row, letters: Mapping[str, str]) -> str:
    """Return the title of a row with its dagger and letter."""
    letter = f" ({letters[row.note]})" if row.note else ""
    return row.title + DAGGER * row.source_samples + letter


def note_mark(mark: str) -> str:
    """Format the mark before a note: a dagger, a letter in parentheses, or nothing."""
    return "" if not mark else f"{mark} " if mark == DAGGER else f"({mark}) "


def markdown(text: str) -> str:
    """Escape Markdown's special characters."""
    return text.translate(MARKDOWN_ESCAPES)


def tex(text: str) -> str:
    """Escape LaTeX's special characters."""
    return text.translate(TEX_ESCAPES).replace(r"A\_T", "$A_T$")


def tex_title(title: str) -> str:
    """Return a column title in LaTeX, on two lines if it names two domains in full."""
    source, arrow, target = title.partition(" → ")
    if not arrow:
        return tex(title)
    lines = rf"{tex(source)}\\{tex('→ ' + target)}"
    return rf"\begin{{tabular}}[b]{{@{{}}r@{{}}}}{lines}\end{{tabular}}"


def tex_cell(cell: Cell | None, column: Column) -> str:
    """Return a cell in LaTeX."""
    text = tex(cell_text(cell, column))
    if cell and cell.best:
        return rf"\textbf{{{text}}}"
    return f"${text}$" if cell and column.signed else text


@functools.cache
def _template(name: str) -> Template:
    """Return a template of pipeline/report/templates, whose delimiters do not clash with LaTeX as Jinja's own do."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(  # noqa: S701  neither format is HTML; `markdown` and `tex` escape
        "<%", "%>", "<<", ">>", "<#", "#>",  # delimiters of blocks, variables and comments
        loader=PackageLoader("pipeline.report", "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )  # fmt: skip
    functions = (cell_text, row_name, note_mark, markdown, tex, tex_title, tex_cell)
    environment.globals |= {function.__name__: function for function in functions}
    return environment.get_template(name)
