"""A suite's table as HTML that the page's script sorts and filters: one body, its blocks a column."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.report.page.markup import text
from pipeline.report.table import DAGGER, Block, Cell, Column, Row, Table


def sortable_table(table: Table, links: Mapping[str, str], *, blocks: str | None = None) -> str:
    """Return the table with its filter.

    links: key of a row -> id of what it leads to. blocks: the title of a column that names each row's block.
    """
    name = text(table.name)
    heads = [(table.rows, "text")] + ([(blocks, "text")] if blocks else [])
    heads += [(column.title, "number") for column in table.columns]
    head = "".join(
        f'<th scope="col" aria-sort="none"><button type="button" data-kind="{kind}">{text(title)}</button></th>'
        for title, kind in heads
    )
    marks = table.marks()
    body = "".join(
        _row(row, block, table.columns, links, marks, named=blocks is not None)
        for block in table.blocks
        for row in block.rows
    )
    notes = "".join(
        f"<li>{text(f'{mark} {note}'.strip())}</li>" for mark, note in table.footnotes("bold")
    )
    return (
        f'<div class="sortable" id="table-{name}">{_filter(table, blocks)}'
        f'<div class="scroll" tabindex="0" role="group" aria-label="{text(table.caption)}">'
        f"<table><caption>{text(table.caption)}</caption><thead><tr>{head}</tr></thead>"
        f'<tbody>{body}</tbody></table></div><ul class="notes">{notes}</ul></div>'
    )


def _filter(table: Table, blocks: str | None) -> str:
    """Return the fields that choose rows, and the place where is said how many are left."""
    name = text(table.name)
    chosen = ""
    headings = [block.heading for block in table.blocks]
    if blocks and len(headings) > 1:
        options = "".join(f"<option>{text(heading)}</option>" for heading in headings)
        chosen = (
            f'<label>{text(blocks)} <select data-block><option value="">all</option>{options}'
            "</select></label>"
        )
    return (
        f'<form class="filter" role="search" aria-label="Filter: {text(table.caption)}">'
        f'<label>Filter <input type="search" data-filter placeholder="{text(table.rows)}…" '
        f'autocomplete="off" aria-controls="table-{name}"></label>{chosen}'
        '<output role="status"></output></form>'
    )


def _row(
    row: Row,
    block: Block,
    columns: tuple[Column, ...],
    links: Mapping[str, str],
    marks: Mapping[str, str],
    *,
    named: bool,
) -> str:
    title = text(row.title)
    if row.key in links:
        title = f'<a href="#{text(links[row.key])}">{title}</a>'
    signs = (DAGGER if row.source_samples else "") + (marks[row.note] if row.note else "")
    title += f"<sup>{text(signs)}</sup>" if signs else ""
    cells = [f'<td class="kind">{text(block.heading)}</td>'] if named else []
    cells += [_cell(cell, block, column) for cell, column in zip(row.cells, columns, strict=True)]
    mean = ' class="mean"' if row.key == "mean" or row.key.endswith(".mean") else ""
    return f'<tr data-block="{text(block.heading)}"{mean}><th scope="row">{title}</th>{"".join(cells)}</tr>'


def _cell(cell: Cell | None, block: Block, column: Column) -> str:
    if cell is None:
        return '<td class="n" data-value=""><span aria-label="no figure">–</span></td>'
    mean, sd = block.text(cell, column)
    shown = f"<b>{text(mean)}</b>" if cell.best else text(mean)
    spread = f" <small>± {text(sd)}</small>" if sd is not None else ""
    return f'<td class="n" data-value="{text(cell.mean)}">{shown}{spread}</td>'
