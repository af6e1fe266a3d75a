"""A table as CSV, Markdown, LaTeX, or text for a terminal."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.report.table import DAGGER, Block, Cell, Column, Row, Table

NONE = "–"  # where there is no figure
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
    """Return a line per row, figures not rounded; deviations are in columns of their own."""
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
    of_methods = ["kind", "group", "title", "source_samples", "note"]
    left_out = [] if table.row_kind == "method" else of_methods
    return str(pd.DataFrame(lines, dtype=object).drop(columns=left_out).to_csv(index=False, lineterminator="\n"))


def to_markdown(table: Table) -> str:
    """Return a heading and a pipe table per section, published figures in a table of their own, then notes."""
    letters, paragraphs = table.letters(), []
    for part in table.parts():
        measured = [block for block in part.blocks if not block.published]
        paragraphs += [f"### {markdown(part.caption)}", _pipe_table(part, measured, letters)]
        for block in part.blocks:
            if block.published:
                rows = replace(block, heading="")
                paragraphs += [f"#### {markdown(block.heading)}", _pipe_table(part, [rows], letters)]
    paragraphs += [f"{note_mark(mark)}{markdown(note)}" for mark, note in table.footnotes("bold")]
    return "\n\n".join(paragraphs) + "\n"


def _pipe_table(part: Table, blocks: Sequence[Block], letters: Mapping[str, str]) -> str:
    def bold(cell: Cell | None, column: Column) -> str:
        return f"**{cell_text(cell, column)}**" if cell and cell.best else cell_text(cell, column)

    lines = [[part.row_kind, *(markdown(column.title) for column in part.columns)]]
    for block in blocks:
        if block.heading:
            lines.append([f"*{markdown(block.heading)}*", *([""] * len(part.columns))])
        lines += [[markdown(row_name(row, letters)), *part.texts(row, bold)] for row in block.rows]
    header, *rows = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([header, "|---|" + "---:|" * len(part.columns), *rows])


def to_latex(table: Table) -> str:
    r"""Return a ``table*`` per section, at most as wide as the page, to be read with ``\input``."""
    lines = [r"% \usepackage{booktabs,graphicx}"]
    for part in table.parts():
        letters, width = part.letters(), len(part.columns)
        lines += [
            "",
            r"\begin{table*}[t]",
            r"\centering\small",
            rf"\caption{{{tex(part.caption)}}}",
            rf"\label{{tab:{part.name.replace('_', '-')}}}",
            r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * width}}}",
            r"\toprule",
            tex_row(part.row_kind, *(tex_title(column.title) for column in part.columns)),
        ]
        for block in part.blocks:
            lines += [r"\midrule"] * (2 if block.published else 1)
            if block.heading:
                lines.append(tex_row(rf"\multicolumn{{{width + 1}}}{{l}}{{\emph{{{tex(block.heading)}}}}}"))
            for row in block.rows:
                marks = superscript(DAGGER * row.source_samples, letters.get(row.note, ""))
                lines.append(tex_row(tex(row.title) + marks, *part.texts(row, tex_cell)))
        lines += [
            r"\bottomrule",
            r"\end{tabular}}",
            r"\par\smallskip\begin{minipage}{\textwidth}\footnotesize",
            *(rf"{superscript(mark)}{tex(note)}.\par" for mark, note in part.footnotes("bold")),
            r"\end{minipage}",
            r"\end{table*}",
        ]
    return "\n".join(lines) + "\n"


def to_text(table: Table) -> str:
    """Return aligned columns for a terminal."""

    def starred(cell: Cell | None, column: Column) -> str:
        return cell_text(cell, column, plus_minus="±") + ("*" if cell and cell.best else " ")

    lines, letters = [table.caption], table.letters()
    for part in table.parts():
        grid = [[part.row_kind, *(f"{column.title} " for column in part.columns)]]
        grid += [[row_name(row, letters), *part.texts(row, starred)] for row in part.rows()]
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
    """Return rows of texts as lines with aligned columns: the first ``left`` flush left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if i < left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def cell_text(cell: Cell | None, column: Column, plus_minus: str = " ± ") -> str:
    """Return the text of a cell, without emphasis."""
    return NONE if cell is None else cell.text(signed=column.signed, plus_minus=plus_minus)


def row_name(row: Row, letters: Mapping[str, str]) -> str:
    """Return a row's title with its marks."""
    letter = f" ({letters[row.note]})" if row.note else ""
    return row.title + DAGGER * row.source_samples + letter


def note_mark(mark: str) -> str:
    """Return the mark before a note: a dagger, a letter in parentheses, or nothing."""
    return "" if not mark else f"{mark} " if mark == DAGGER else f"({mark}) "


def markdown(text: str) -> str:
    """Return text with Markdown's special letters escaped."""
    return text.translate(MARKDOWN_ESCAPES)


def tex(text: str) -> str:
    """Return text with LaTeX's special letters escaped."""
    return text.translate(TEX_ESCAPES).replace(r"A\_T", "$A_T$")


def tex_title(title: str) -> str:
    """Return a column's title, on two lines where it names two domains in full."""
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


def tex_row(*texts: str) -> str:
    """Return a line of a LaTeX table."""
    return " & ".join(texts) + r" \\"


def superscript(*marks: str) -> str:
    """Return the marks behind a title or before a note in LaTeX; nothing if all are empty."""
    shown = " ".join(mark.replace(DAGGER, r"\dagger") for mark in marks if mark)
    return f"$^{{{shown}}}$" if shown else ""
