"""How a figure is printed: here, and only here, a value and its standard deviation become text."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np


def percent(fraction: float | np.floating[Any]) -> float:
    """Return a fraction as percent with two decimals, as every results file has it.

    Examples
    --------
    >>> percent(2 / 3)
    66.67
    """
    return round(100 * float(fraction), 2)


def decimal(value: float) -> Decimal:
    """Return a percentage as an exact number with two decimals."""
    return Decimal(f"{value:.2f}")


@dataclass(frozen=True)
class Cell:
    """A figure in percent; decimals, because what the paper printed must be printed again digit by digit."""

    mean: Decimal
    sd: Decimal | None = None
    digits: int | None = 1  # to print; None: all that the number has
    best: bool = False  # marked as the best

    @property
    def rounded(self) -> Decimal:
        """The mean as it is printed."""
        return self._rounded(self.mean)

    def _rounded(self, value: Decimal) -> Decimal:
        """Round half away from zero, never to -0."""
        if self.digits is None:
            return value
        return value.quantize(Decimal(1).scaleb(-self.digits), rounding=ROUND_HALF_UP) + 0

    def texts(self, *, signed: bool = False) -> tuple[str, str | None]:
        """Return mean (with its sign if ``signed``) and deviation as they are printed."""
        mean = f"{self.rounded:+}" if signed else str(self.rounded)
        return mean, None if self.sd is None else str(self._rounded(self.sd))

    def text(self, *, signed: bool = False, plus_minus: str = " ± ") -> str:
        """Return the figure as one text.

        Examples
        --------
        >>> Cell(Decimal("93.25"), Decimal("0.50")).text()
        '93.3 ± 0.5'
        """
        return plus_minus.join(text for text in self.texts(signed=signed) if text is not None)


@dataclass(frozen=True)
class Word:
    """A cell that holds a word, or a number that is a setting and no figure."""

    mean: str
    sd: None = None
    best: bool = False

    def text(self, *, signed: bool = False, plus_minus: str = "") -> str:
        """Return the word."""
        del signed, plus_minus
        return self.mean


def format_figure(mean: float, sd: float | None = None, *, signed: bool = False, plus_minus: str = " ± ") -> str:
    """Return percentages ``mean ± sd`` as one text with one decimal."""
    cell = Cell(decimal(mean), None if sd is None else decimal(sd))
    return cell.text(signed=signed, plus_minus=plus_minus)
