"""A table as CSV, Markdown, LaTeX or text for a terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

from pipeline.report.table import DAGGER, Block, Cell, Column, Row, Table

NONE = "–"  # where there is no figure
TERMINAL = 120

TEX_LETTERS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "→": r"$\rightarrow$",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "–": "--",
    "σ": r"$\sigma$",
}
MARKDOWN_LETTERS = {letter: "\\" + letter for letter in "\\|*_`<["}


def to_csv(table: Table) -> str:
    """Return one row per row: a column's mean and, in a column of its own, its deviation; no rounding."""
    by_method = table.rows == "method"
    first = {column.key: i for i, column in reversed(list(enumerate(table.columns)))}
    places = sorted(first.values())  # a column that sums up may stand in two sections
    header = ["kind", "group", "method", "title", "source_samples"] if by_method else [table.rows]
    for column in (table.columns[i] for i in places):
        header += [column.key] if column.signed else [column.key, f"{column.key}_sd"]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*header, "note"] if by_method else header)
    for block in table.blocks:
        for row in block.rows:
            values: list[object] = [row.key]
            if by_method:
                kind = "published" if block.published else "measured"
                group = "" if block.published else block.heading
                values = [kind, group, row.key, row.title, str(row.source_samples).lower()]
            for i in places:
                cell, signed = row.cells[i], table.columns[i].signed
                values.append("" if cell is None else cell.mean)
                if not signed:
                    values.append("" if cell is None or cell.sd is None else cell.sd)
            writer.writerow([*values, row.note] if by_method else values)
    return file.getvalue()


def to_markdown(table: Table) -> str:
    """Return a heading and a pipe table per section, what was published in a table of its own below; then notes."""
    lines, marks = [], table.marks()
    for part in table.parts():
        lines += [f"### {_markdown(part.caption)}", ""]
        lines += _pipe_table(part, [block for block in part.blocks if not block.published], marks)
        for block in part.blocks:
            if block.published:
                lines += [f"#### {_markdown(block.heading)}", ""]
                lines += _pipe_table(part, [block], marks)
    for mark, note in table.footnotes("bold"):
        lines += [f"{_marked(mark)}{_markdown(note)}", ""]
    return "\n".join(lines[:-1]) + "\n"


def _pipe_table(table: Table, blocks: Sequence[Block], marks: Mapping[str, str]) -> list[str]:
    titles = [table.rows, *(_markdown(column.title) for column in table.columns)]
    lines = [_pipes(titles), "|---|" + "---:|" * len(table.columns)]
    for block in blocks:
        if block.heading and not block.published:
            lines.append(_pipes([f"*{_markdown(block.heading)}*", *("" for _ in table.columns)]))
        for row in block.rows:
            cells = [
                f"**{text}**" if cell is not None and cell.best else text
                for cell, text in _texts(block, row, table.columns, " ± ")
            ]
            lines.append(_pipes([_markdown(_name(row, marks)), *cells]))
    return [*lines, ""]


def to_latex(table: Table) -> str:
    r"""Return a `table*` per section, for \input; as wide as the page at most."""
    lines = [r"% \usepackage{booktabs,graphicx}"]
    for part in table.parts():
        lines += [
            "",
            r"\begin{table*}[t]",
            r"\centering\small",
            rf"\caption{{{_tex(part.caption)}}}",
            rf"\label{{tab:{part.name.replace('_', '-')}}}",
            r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * len(part.columns)}}}",
            r"\toprule",
            _ampersands([part.rows, *(_tex_title(column.title) for column in part.columns)]),
            *(line for block in part.blocks for line in _tex_block(part, block)),
            r"\bottomrule",
            r"\end{tabular}}",
            r"\par\smallskip\begin{minipage}{\textwidth}\footnotesize",
            *(
                _raised(mark.replace(DAGGER, r"\dagger")) + _tex(note) + r".\par"
                for mark, note in part.footnotes("bold")
            ),
            r"\end{minipage}",
            r"\end{table*}",
        ]
    return "\n".join(lines) + "\n"


def _tex_block(table: Table, block: Block) -> Iterator[str]:
    yield r"\midrule"
    if block.heading:
        if block.published:
            yield r"\midrule"
        width = len(table.columns) + 1
        yield rf"\multicolumn{{{width}}}{{l}}{{\emph{{{_tex(block.heading)}}}}} \\"
    for row in block.rows:
        dagger = r"\dagger " if row.source_samples else ""
        raised = _raised((dagger + table.marks().get(row.note, "")).strip())
        cells = [
            rf"\textbf{{{text}}}" if cell is not None and cell.best else text
            for cell, text in _texts(block, row, table.columns, r" $\pm$ ")
        ]
        cells = [
            rf"${text}$" if column.signed and text != NONE else text.replace(NONE, "--")
            for text, column in zip(cells, table.columns, strict=True)
        ]
        yield _ampersands([_tex(row.title) + raised, *cells])


def to_text(table: Table, width: int = TERMINAL) -> str:
    """Return aligned columns for a terminal; those that do not fit stand below, under the rows' names again."""
    lines, marks = [table.caption], table.marks()
    for part in table.parts():
        names = [_name(row, marks) for block in part.blocks for row in block.rows]
        first = max(map(len, [*names, part.rows]))
        widths = [_width(part, i) for i in range(len(part.columns))]
        for places in _fitting(widths, width - first):
            lines += _grid(part.only(places), first, [widths[i] for i in places], marks)
    lines += [f"{_marked(mark)}{note}" for mark, note in table.footnotes("*")]
    return "\n".join(lines) + "\n"


def _grid(table: Table, first: int, widths: Sequence[int], marks: Mapping[str, str]) -> list[str]:
    titles = (f"{c.title:>{w - 1}} " for c, w in zip(table.columns, widths, strict=True))
    header = f"{table.rows:{first}}{''.join(titles)}".rstrip()
    lines = [header]
    rule = "-" * (first + sum(widths) - 1)
    for block in table.blocks:
        lines.append(rule)
        if block.heading:
            lines.append(block.heading)
        for row in block.rows:
            cells = [
                f"{text + ('*' if cell is not None and cell.best else ' '):>{w}}"
                for (cell, text), w in zip(
                    _texts(block, row, table.columns, " ± "), widths, strict=True
                )
            ]
            lines.append(f"{_name(row, marks):{first}}{''.join(cells)}".rstrip())
    return [*lines, ""]


def _width(table: Table, place: int) -> int:
    """Return how wide a column is, with two spaces before it and room for a star after it."""
    texts = [
        text
        for block in table.blocks
        for row in block.rows
        for _, text in _texts(block, row, table.columns, " ± ")[place : place + 1]
    ]
    return 2 + max(map(len, [*texts, table.columns[place].title])) + 1


def _fitting(widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """Yield runs of columns that fit into ``room``, at least one each."""
    run: list[int] = []
    for place, width in enumerate(widths):
        if run and sum(widths[i] for i in run) + width > room:
            yield run
            run = []
        run.append(place)
    yield run


def _texts(
    block: Block, row: Row, columns: Sequence[Column], plus_minus: str
) -> list[tuple[Cell | None, str]]:
    """Return each cell with its text, without emphasis."""
    found: list[tuple[Cell | None, str]] = []
    for cell, column in zip(row.cells, columns, strict=True):
        if cell is None:
            found.append((None, NONE))
        else:
            mean, sd = block.text(cell, column)
            found.append((cell, mean if sd is None else f"{mean}{plus_minus}{sd}"))
    return found


def _name(row: Row, marks: Mapping[str, str]) -> str:
    """Return a row's title with its marks."""
    mark = f" ({marks[row.note]})" if row.note else ""
    return row.title + DAGGER * row.source_samples + mark


def _marked(mark: str) -> str:
    return "" if not mark else f"{mark} " if mark == DAGGER else f"({mark}) "


def _raised(mark: str) -> str:
    return rf"$^{{{mark}}}$" if mark else ""


def _tex(text: str) -> str:
    escaped = "".join(TEX_LETTERS.get(letter, letter) for letter in text)
    return escaped.replace(r"A\_T", "$A_T$")


def _tex_title(title: str) -> str:
    """Return a column's title, on two lines where it names two domains in full."""
    source, arrow, target = title.partition(" → ")
    if not arrow:
        return _tex(title)
    lines = rf"{_tex(source)}\\{_tex('→ ' + target)}"
    return rf"\begin{{tabular}}[b]{{@{{}}r@{{}}}}{lines}\end{{tabular}}"


def _markdown(text: str) -> str:
    return "".join(MARKDOWN_LETTERS.get(letter, letter) for letter in text)


def _pipes(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ampersands(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
