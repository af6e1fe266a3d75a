"""A table before it has a format: blocks of rows, cells of mean and deviation, and what stands below it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal

DAGGER = "†"
SOURCE_SAMPLES = "reads source samples while adapting: not source-free"


@dataclass(frozen=True)
class Cell:
    """A figure in percent. Decimals, so that what the paper printed is printed again."""

    mean: Decimal
    sd: Decimal | None = None
    best: bool = False


@dataclass(frozen=True)
class Column:
    """``key`` names it in CSV, ``title`` elsewhere; wide tables are split by ``section``.

    signed: a difference, shown with its sign and without deviation. note: what the figures are, if it must be said.
    """

    key: str
    title: str
    section: str = ""
    signed: bool = False
    note: str = ""


@dataclass(frozen=True)
class Row:
    """One cell per column of the table; None where there is no figure. always: shown even where it has none at all."""

    key: str
    title: str
    cells: tuple[Cell | None, ...]
    source_samples: bool = False
    note: str = ""
    always: bool = False


@dataclass(frozen=True)
class Block:
    """Rows that belong together. digits: of the figures shown; None: as they were printed."""

    heading: str
    rows: tuple[Row, ...]
    published: bool = False
    digits: int | None = 1

    def text(self, cell: Cell, column: Column) -> tuple[str, str | None]:
        """Return mean and deviation as they are shown."""
        mean = rounded(cell.mean, self.digits)
        sd = None if cell.sd is None else str(rounded(cell.sd, self.digits))
        return (f"{mean:+}" if column.signed else str(mean)), sd


@dataclass(frozen=True)
class Table:
    """rows: what a row is, ``method`` or ``problem``. sections: titles of the columns' sections.

    best: among what the best is marked.
    """

    name: str
    caption: str
    rows: str
    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()
    sections: tuple[tuple[str, str], ...] = ()
    best: str = "the best of each column"

    def parts(self) -> list[Table]:
        """Return one table per section of columns; rows without any figure there are left out."""
        keys = list(dict.fromkeys(column.section for column in self.columns))
        return [self] if len(keys) < 2 else [self._part(key) for key in keys]

    def _part(self, section: str) -> Table:
        places = [i for i, column in enumerate(self.columns) if column.section == section]
        title = dict(self.sections).get(section, section)
        return replace(
            self.only(places), name=f"{self.name}-{section}", caption=f"{self.caption}, {title}"
        )

    def only(self, places: Iterable[int]) -> Table:
        """Return the table with the columns at ``places`` alone."""
        places = list(places)
        blocks = []
        for block in self.blocks:
            rows = [
                replace(row, cells=tuple(row.cells[i] for i in places))
                for row in block.rows
                if row.always or any(row.cells[i] for i in places)
            ]
            if rows:
                blocks.append(replace(block, rows=tuple(rows)))
        columns = tuple(self.columns[i] for i in places)
        return replace(self, columns=columns, blocks=tuple(blocks))

    def marks(self) -> dict[str, str]:
        """Return the letter of each row's note."""
        notes = dict.fromkeys(r.note for block in self.blocks for r in block.rows if r.note)
        return {note: chr(ord("a") + i) for i, note in enumerate(notes)}

    def footnotes(self, emphasis: str) -> list[tuple[str, str]]:
        """Return what stands below the table, mark (or none) and text; ``emphasis`` marks the best."""
        rows = [row for block in self.blocks for row in block.rows]
        of_columns = dict.fromkeys(column.note for column in self.columns if column.note)
        notes = [("", note) for note in (*self.notes, *of_columns)]
        if any(cell.best for row in rows for cell in row.cells if cell):
            apart = (
                ", measured and published apart" if any(b.published for b in self.blocks) else ""
            )
            notes.append(("", f"{emphasis}: {self.best}{apart}"))
        if any(row.source_samples for row in rows):
            notes.append((DAGGER, SOURCE_SAMPLES))
        return notes + [(mark, note) for note, mark in self.marks().items()]


def rounded(value: Decimal, digits: int | None) -> Decimal:
    """Return ``value`` to so many decimals, halves away from zero and never as -0."""
    if digits is None:
        return value
    return value.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP) + 0


def mark_best(blocks: Iterable[Block], columns: tuple[Column, ...]) -> list[Block]:
    """Mark the highest figure of each column among ``blocks``: all that look the same are best."""
    blocks = list(blocks)
    highest = [
        None
        if column.signed
        else max(
            (
                rounded(cell.mean, block.digits)
                for block in blocks
                for row in block.rows
                if (cell := row.cells[i])
            ),
            default=None,
        )
        for i, column in enumerate(columns)
    ]

    def marked(row: Row, digits: int | None) -> Row:
        cells = tuple(
            cell and replace(cell, best=rounded(cell.mean, digits) == best)
            for cell, best in zip(row.cells, highest, strict=True)
        )
        return replace(row, cells=cells)

    return [replace(b, rows=tuple(marked(row, b.digits) for row in b.rows)) for b in blocks]
