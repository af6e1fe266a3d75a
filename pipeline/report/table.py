"""Tables independent of a file format: blocks of rows, cells with mean and deviation, and notes.

All figures and their standard deviations are rounded here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Self

DAGGER = "†"
TIES = "and all within two standard errors of it (paired over images and seeds)"
SOURCE_SAMPLES = "reads source samples while adapting: not source-free"


@dataclass(frozen=True)
class Cell:
    """A figure in percent, or a word; figures are Decimal, so that the paper's are reproduced digit by digit."""

    mean: Any  # Decimal, or the text of a setting
    sd: Decimal | None = None
    digits: int | None = 1  # decimals to print; None: all that the number has
    best: bool = False  # marked as the best

    def texts(self, *, signed: bool = False) -> tuple[str, str | None]:
        """Return mean (with its sign if ``signed``) and deviation as text, rounded half away from zero, never to -0."""
        mean, sd = (self._rounded(value) for value in (self.mean, self.sd))
        return f"{mean:+}" if signed else str(mean), None if sd is None else str(sd)

    def _rounded(self, value: Any) -> Any:
        if self.digits is None or not isinstance(value, Decimal):
            return value
        return value.quantize(Decimal(1).scaleb(-self.digits), rounding=ROUND_HALF_UP) + 0

    def text(self, *, signed: bool = False, plus_minus: str = " ± ") -> str:
        """Return mean and deviation as one text.

        Examples
        --------
        >>> Cell(Decimal("93.25"), Decimal("0.50")).text()
        '93.3 ± 0.5'
        """
        return plus_minus.join(text for text in self.texts(signed=signed) if text is not None)


def percent_cell(mean: float, sd: float | None = None, digits: int = 1) -> Cell:
    """Return a cell of percentages, kept to two decimals."""
    return Cell(Decimal(f"{mean:.2f}"), None if sd is None else Decimal(f"{sd:.2f}"), digits)


def format_figure(mean: float, sd: float | None = None, *, signed: bool = False, plus_minus: str = " ± ") -> str:
    """Format percentages as ``mean ± sd`` with one decimal."""
    return percent_cell(mean, sd).text(signed=signed, plus_minus=plus_minus)


@dataclass(frozen=True)
class Column:
    """A column of a table; wide tables are printed as one table per section."""

    key: str  # name in CSV files
    title: str
    section: str = ""
    section_title: str = ""
    signed: bool = False  # differences, printed with their sign and without deviation
    count: bool = False  # figures without deviation
    note: str = ""  # meaning of its figures, if the title does not say it


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    key: str
    title: str
    cells: Mapping[str, Cell | None]  # by column key; missing or None: no figure
    source_samples: bool = False  # whether the method reads source samples; marked with a dagger
    note: str = ""  # printed below the table and referred to by a letter
    always_shown: bool = False  # even in sections where it has no figure


@dataclass(frozen=True)
class Block:
    """Rows that belong together; a block holds either measured or published figures."""

    heading: str
    rows: tuple[Row, ...]
    published: bool = False


@dataclass(frozen=True)
class Table:
    """A table; ``name`` is that of its files, ``row_kind`` is ``method``, ``problem`` or ``score``."""

    name: str
    caption: str
    row_kind: str
    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()
    best: str = "the best of each column"  # says which figures are marked as the best
    warnings: tuple[str, ...] = ()  # to be read before a figure is used

    def parts(self) -> list[Self]:
        """Return one table per section of columns, without the rows that have no figure there."""
        sections = {column.section: column.section_title for column in self.columns}
        if len(sections) < 2:
            return [self]
        return [
            replace(
                self.with_columns([column for column in self.columns if column.section == section]),
                name=f"{self.name}-{section}",
                caption=f"{self.caption}, {title}",
            )
            for section, title in sections.items()
        ]

    def with_columns(self, columns: Sequence[Column]) -> Self:
        """Return the table with only these columns, in the given order, and the rows that have figures there."""

        def kept(block: Block) -> tuple[Row, ...]:
            return tuple(row for row in block.rows if row.always_shown or any(row.cells.get(c.key) for c in columns))

        blocks = (replace(block, rows=kept(block)) for block in self.blocks)
        return replace(self, columns=tuple(columns), blocks=tuple(block for block in blocks if block.rows))

    def rows(self) -> list[Row]:
        """Return the rows of all blocks."""
        return [row for block in self.blocks for row in block.rows]

    def letters(self) -> dict[str, str]:
        """Return the letter of each row note, by note."""
        notes = dict.fromkeys(row.note for row in self.rows() if row.note)
        return {note: chr(ord("a") + i) for i, note in enumerate(notes)}

    def footnotes(self, emphasis: str) -> list[tuple[str, str]]:
        """Return the notes below the table as pairs (mark, text); a mark is empty, a dagger or a letter.

        ``emphasis`` is how the format marks the best figures, ``bold`` or ``*``.
        """
        rows = self.rows()
        column_notes = dict.fromkeys(column.note for column in self.columns if column.note)
        notes = [("", note) for note in (*self.warnings, *self.notes, *column_notes)]
        if any(cell.best for row in rows for column in self.columns if (cell := row.cells.get(column.key))):
            suffix = "; separately for published figures" if any(block.published for block in self.blocks) else ""
            notes.append(("", f"{emphasis}: {self.best}, {TIES}{suffix}"))
        if any(row.source_samples for row in rows):
            notes.append((DAGGER, SOURCE_SAMPLES))
        return notes + [(letter, note) for note, letter in self.letters().items()]


def is_mean(key: str) -> bool:
    """Tell whether the row or column with this key is an average."""
    return key == "mean" or key.endswith(".mean")
