"""Build the kernel's input rows of n images, by view, and compute or cache their random Fourier features.

The input of the kernel is the unit vision embedding g, or g next to CLIP's embedding c of the image,

    x = [g/‖g‖ ; λ c/‖c‖],   so that eq. (3) becomes exp(−gamma (‖Δg‖² + λ² ‖Δc‖²) / (1 + λ²))

after x is normalised like every row. CLIP in the kernel is a deviation from the paper, whose kernel uses the vision
model alone; docs/evidence.md justifies λ = 0.5. All views of an image use CLIP's embedding of the original.

Features are needed several times: for labels, for sums, and again in every round. They are kept in memory if they are
small, and never on disk, because reading them would be slower than computing them.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError
from pipeline.method.random_fourier_features import Basis, deviations, from_phases, phases
from pipeline.method.rows import (
    BLOCK_IMAGES,
    ComputedRows,
    Index,
    Matrix,
    Rows,
    UnlabelledRows,
    row_blocks,
    take,
    unit_rows,
)

KEPT_BYTES = 256 * 2**20  # maximum size of the features kept in memory for one set of images
PANEL = 96  # columns of a triangle multiplied at a time

Matrix32 = npt.NDArray[np.float32]
Value = TypeVar("Value")


class Sharing(Protocol):
    """Type of the ``shared`` argument, a cache through which several variants share features and neighbours."""

    def __call__(self, key: Hashable, make: Callable[[], Value], /) -> Value:
        """Return the value of ``make()``, computed when the key is first used.

        A key contains the object that holds the images and keeps it in memory together with the value. Pass
        `no_sharing` if that object should be freed earlier.
        """


def no_sharing(key: Hashable, make: Callable[[], Value]) -> Value:  # noqa: ARG001
    """Return ``make()`` without caching, see `Sharing`."""
    return make()


def kept_in_memory(n: int, views: int, D: int) -> bool:
    """Return whether D features of each view of n images are small enough to be kept in memory."""
    return n * views * D * 4 <= KEPT_BYTES


def joint_rows(vision: Rows, clip: Rows, clip_weight: float) -> ComputedRows:
    """Return lazy rows [g/‖g‖ ; λ c/‖c‖], (n, d + d'), of vision (n, d) and CLIP rows (n, d'); λ is CLIP's weight."""
    v, c = len(vision), len(clip)
    if v != c:
        raise InputError(f"embeddings: {v} vision and {c} CLIP rows do not belong together")
    width = vision.shape[1] + clip.shape[1]
    return ComputedRows(partial(_joint_block, clip_weight=clip_weight), (vision, clip), width)


def _joint_block(vision: Matrix, clip: Matrix, clip_weight: float) -> Matrix:
    return np.hstack([unit_rows(vision), clip_weight * unit_rows(clip)]).astype(np.float32)


class KeptFeatures:
    """Lazy input rows of one view whose features are computed once and kept in memory."""

    def __init__(
        self,
        basis: Basis,
        rows: Rows,
        lookup: Callable[[Index], Matrix32] | None = None,
        compute: Callable[[Basis, Rows], Matrix32] | None = None,
    ) -> None:
        self.basis = basis
        self.rows = rows
        self.compute = compute or all_deviations
        self._features: Matrix32 | None = None
        self._lock = Lock()  # a second thread waits for the features instead of computing them again
        self._lookup = lookup  # not a bound method of this object: the cycle would keep the features in memory

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape (n, d) of the input rows."""
        return self.rows.shape

    def __getitem__(self, index: Index) -> Matrix:
        return self.rows[index]

    def deviations(self, index: Index) -> Matrix32:
        """Return the features z − pivot (b, D) of the rows at ``index`` (b,)."""
        if self._lookup is not None:
            return self._lookup(index)
        with self._lock:
            if self._features is None:
                self._features = self.compute(self.basis, self.rows)
                self._features.flags.writeable = False
        if np.array_equal(index, np.arange(len(self))):
            return self._features  # copying all of them would take as long as summing them
        return self._features[index]

    def take(self, index: Index) -> "KeptFeatures":
        """Return the rows at ``index`` (b,); their features are looked up in this object."""
        return KeptFeatures(self.basis, take(self.rows, index), lambda inner: self.deviations(index[inner]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the input rows; another process computes the features again."""
        return _unpickled, (self.rows,)


def all_deviations(basis: Basis, rows: Rows) -> Matrix32:
    """Return the features z − pivot (n, D) of all input rows (n, d) of the kernel."""
    features = np.empty((len(rows), basis.width), np.float32)
    for index in row_blocks(len(rows), BLOCK_IMAGES):  # by blocks, to bound the float64 copies
        features[index] = deviations(basis, rows[index])
    return features


def _unpickled(rows: Rows) -> Rows:
    return rows


def row_deviations(basis: Basis, rows: Rows, index: Index) -> Matrix32:
    """Return the features z − pivot (b, D) of the kernel's input rows at ``index`` (b,)."""
    if isinstance(rows, KeptFeatures):
        return rows.deviations(index)
    return deviations(basis, rows[index])


@dataclass(frozen=True, eq=False)
class KernelRows:
    """The kernel's input rows of n images with the basis that maps them."""

    basis: Basis  # its d is the width of the rows
    views: Mapping[str, Rows]  # (n, d) by view; `KeptFeatures` if the features are small

    def __len__(self) -> int:
        return len(next(iter(self.views.values())))

    def deviations(self, view: str, index: Index) -> Matrix32:
        """Return the features z − pivot (b, D) of one view of the images at ``index`` (b,)."""
        return row_deviations(self.basis, self.views[view], index)


def kernel_rows(basis: Basis, images: UnlabelledRows, clip_weight: float, shared: Sharing = no_sharing) -> KernelRows:
    """Return the kernel's input rows of unlabelled images, see `joined_rows`."""
    key = ("features", images, clip_weight, basis.width)
    return shared(key, lambda: joined_rows(basis, images.views, images.clip, clip_weight))


def joined_rows(basis: Basis, views: Mapping[str, Rows], clip: Rows | None, clip_weight: float) -> KernelRows:
    """Return the kernel's input rows of images, given their vision embeddings (n, d) by view and CLIP's (n, d').

    ``clip_weight`` is λ. If it is 0 or there are no CLIP rows, the kernel uses the vision model alone.
    """
    inputs = dict(views)
    if clip_weight and clip is not None:
        basis = basis.joint()
        inputs = {name: joint_rows(rows, clip, clip_weight) for name, rows in views.items()}
    n = len(next(iter(views.values())))
    if kept_in_memory(n, len(inputs), basis.width):
        inputs = {name: KeptFeatures(basis, rows) for name, rows in inputs.items()}
    return KernelRows(basis, inputs)


class SweptFeatures:
    """Features of one set of rows (n, d) under all bases of a sweep over D and sigma, with shared computations.

    Bases of one seed are nested and differ in scale: ω of D features are the first D columns of those of more features,
    and ω of another gamma are the same numbers times sqrt(gamma'/gamma). So the phases ωᵀx of all bases are those of
    the widest, and the products z·M along the kept directions (`kernel_directions`, Q = M·R⁻¹) are those of the next
    smaller D plus those of the further columns: a sweep takes the map and the products of its largest D alone.

    All bases are nested in ``widest``, up to the scale of ω; ``widths`` contains every D of the sweep. Sums over
    columns are split at each width, so that rounding does not depend on the order of runs.
    """

    def __init__(self, widest: Basis, widths: Sequence[int]) -> None:
        self.widest = widest
        self.widths = sorted(set(widths))
        self._lock = Lock()
        self._phases: Matrix32 | None = None
        self._products: dict[float, tuple[int, Matrix32]] = {}  # by gamma: (number of columns summed, z·M (n, r))

    def deviations(self, basis: Basis, rows: Rows) -> Matrix32:
        """Return z(x) − z(0) of the rows, (n, D), or its coordinates (n, r) along the directions of the basis."""
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
    """Return rows·upper, (n, r), for an upper triangle (r, r), skipping most multiplications by zero."""
    product = np.empty_like(rows)
    for start in range(0, len(upper), PANEL):
        stop = start + PANEL
        np.matmul(rows[:, :stop], upper[:stop, start:stop], out=product[:, start:stop])
    return product
