"""Features of the same rows under many bases, for a sweep over D and sigma.

Bases of one seed are nested and differ in scale: ω of D features are the first D columns of those of more features, and
ω of another gamma are the same numbers times sqrt(gamma'/gamma). So the phases ωᵀx of all of them are those of the
widest, and the products z·M along the directions that count (`kernel_directions`, Q = M·R⁻¹) are those of the next
smaller D and of a few columns more: a sweep takes the map and the products of its largest D alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from threading import Lock

import numpy as np

from pipeline.method.kernel_rows import Matrix32
from pipeline.method.random_fourier_features import Basis, from_phases, phases
from pipeline.method.rows import Rows

PANEL = 96  # columns of a triangle that are multiplied at a time


class SweptFeatures:
    """What the bases of a sweep share of one set of rows (n, d); its method maps as `deviations` does.

    The bases are nested in ``widest``, up to the scale of ω; ``widths`` is every D of the sweep. Sums over columns
    stop at each, so that rounding does not depend on the order of runs.
    """

    def __init__(self, widest: Basis, widths: Sequence[int]) -> None:
        self.widest = widest
        self.widths = sorted(set(widths))
        self._lock = Lock()
        self._phases: Matrix32 | None = None
        self._products: dict[float, tuple[int, Matrix32]] = {}  # by gamma: z·M (n, r) of the first columns

    def deviations(self, basis: Basis, rows: Rows) -> Matrix32:
        """Return z(x) − z(0) of the rows, (n, D), or its coordinates along the directions of the basis, (n, r)."""
        assert basis.D in self.widths, f"D = {basis.D} is not in the sweep"  # noqa: S101
        with self._lock:
            if self._phases is None:
                self._phases = phases(self.widest, rows[np.arange(len(rows))])
            if basis.directions is None:
                return self._features(basis, slice(0, basis.D), basis.scale)
            start, products = self._products.get(basis.gamma, (basis.D + 1, np.zeros(0, np.float32)))
            if start > basis.D:
                start, products = 0, np.zeros((len(rows), basis.width), np.float32)
            for stop in self.widths:
                if start < stop <= basis.D:
                    columns = slice(start, stop)
                    products += self._features(basis, columns, 1.0) @ basis.directions.columns[columns]
                    start = stop
            self._products[basis.gamma] = start, products
            return _by_triangle(products, np.float32(basis.scale) * basis.directions.inverse)

    def _features(self, basis: Basis, columns: slice, scale: float) -> Matrix32:
        assert self._phases is not None  # noqa: S101
        ratio = np.float32(math.sqrt(basis.gamma / self.widest.gamma))
        return from_phases(ratio * self._phases[:, columns], basis.beta[columns], scale)


def _by_triangle(rows: Matrix32, upper: Matrix32) -> Matrix32:
    """Return rows·upper, (n, r), of an upper triangle (r, r), without most of the multiplications by zero."""
    product = np.empty_like(rows)
    for start in range(0, len(upper), PANEL):
        stop = start + PANEL
        np.matmul(rows[:, :stop], upper[:stop, start:stop], out=product[:, start:stop])
    return product
