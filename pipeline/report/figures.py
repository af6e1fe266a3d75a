"""How a figure is printed: here, and only here, a value and its standard deviation become text."""

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


@dataclass(frozen=True)
class Cell:
    """A figure in percent, decimal because what the paper printed is printed again digit by digit; or a word."""

    mean: Any  # a Decimal, or the text of a setting
    sd: Decimal | None = None
    digits: int | None = 1  # to print; None: all that the number has
    best: bool = False  # marked as the best

    @property
    def rounded(self) -> Any:
        """The mean as it is printed: rounded half away from zero, never to -0."""
        return self._rounded(self.mean)

    def _rounded(self, value: Any) -> Any:
        if self.digits is None or isinstance(value, str):
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


def percent_cell(mean: float, sd: float | None = None, digits: int = 1) -> Cell:
    """Return the cell of percentages, of which two decimals count."""
    return Cell(Decimal(f"{mean:.2f}"), None if sd is None else Decimal(f"{sd:.2f}"), digits)


def format_figure(mean: float, sd: float | None = None, *, signed: bool = False, plus_minus: str = " ± ") -> str:
    """Return percentages ``mean ± sd`` as one text with one decimal."""
    return percent_cell(mean, sd).text(signed=signed, plus_minus=plus_minus)
