"""Random Fourier features of the Gaussian kernel, eqs. (3)–(8), about a pivot.

z(x) = sqrt(2/D) · cos(ωᵀx + β), eq. (7), so that z(x)ᵀz(y) ≈ K(x, y) = exp(−gamma ‖x − y‖²). With gamma = 1e-4 and unit
rows, ωᵀx is about 0.01: z is cos β plus a deviation of one per cent, and only the deviation carries information.
`deviations` computes z(x) − z(0) from

    cos(a + b) − cos(b) = −2 sin(a/2) sin(b + a/2)

where nothing cancels, so float32 keeps seven digits of the deviation itself.

Bases are nested: column j depends only on (seed, j), and on d if the basis is orthogonal, so the first D' columns of a
basis for D are the basis for D'.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError, ParamsError, did_you_mean
from pipeline.method.rows import Matrix, Rows, unit_rows

Convention = Literal["bandwidth", "spread", "gamma"]
CONVENTIONS = ("bandwidth", "spread", "gamma")
COLUMNS = 64  # columns drawn from one generator; changing it changes every basis
ROWS = 2048  # rows mapped at a time if directions are kept
MEDIAN_ROWS = 2000  # maximum number of rows for the median distance; more do not change it


@dataclass(frozen=True, eq=False)
class Directions:
    """r orthonormal directions of feature space, see `kernel_directions`."""

    columns: npt.NDArray[np.float32]  # (D, r) spanning columns M; a nested basis has the first rows of them
    inverse: npt.NDArray[np.float32]  # (r, r) R⁻¹, which makes them orthonormal

    @cached_property
    def Q(self) -> npt.NDArray[np.float32]:  # noqa: N802  the usual name
        """The directions, (D, r): Q = M·R⁻¹."""
        return self.columns @ self.inverse


@dataclass(frozen=True, eq=False)
class Basis:
    """The frequencies and phases shared by source and target."""

    omega: npt.NDArray[np.float32]  # (d, D) frequencies
    beta: npt.NDArray[np.float32]  # (D,) phases
    gamma: float  # of the kernel exp(−gamma ‖x − y‖²)
    largest_gamma: float  # maximum over all seeds, which decides the directions to keep, see `kernel_directions`
    # (d', D) frequencies for CLIP's image embedding, or None if it cannot enter the kernel, see `joint`
    clip_omega: npt.NDArray[np.float32] | None = None
    directions: Directions | None = None  # if given, features are coordinates along these

    @property
    def d(self) -> int:
        """Embedding width."""
        return int(self.omega.shape[0])

    @property
    def D(self) -> int:  # noqa: N802  the paper's name
        """Number of Fourier features."""
        return int(self.omega.shape[1])

    @property
    def width(self) -> int:
        """Number of columns of `deviations`: D, or r if there are `directions`."""
        return self.D if self.directions is None else len(self.directions.inverse)

    @property
    def scale(self) -> float:
        """sqrt(2/D) of eq. (7)."""
        return math.sqrt(2 / self.D)

    @property
    def pivot(self) -> npt.NDArray[np.float64]:
        """z(0) = sqrt(2/D) cos β, (D,), from which `deviations` are measured."""
        return self.scale * np.cos(self.beta.astype(np.float64))

    def joint(self) -> "Basis":
        """Return the basis for concatenated vision and CLIP embeddings, d + d' wide."""
        if self.clip_omega is None:
            raise InputError("basis: it has no frequencies for CLIP's embeddings; run dvc repro")
        return replace(self, omega=np.vstack([self.omega, self.clip_omega]), clip_omega=None)

    def nested(self, D: int) -> "Basis":
        """Return the basis of the first ``D`` columns, without `directions`."""
        if not 1 <= D <= self.D:
            raise ParamsError(f"rff.D: {D} features are not among the {self.D} of this basis")
        clip_omega = None if self.clip_omega is None else self.clip_omega[:, :D]
        return replace(self, omega=self.omega[:, :D], beta=self.beta[:D], clip_omega=clip_omega, directions=None)


def kernel_gamma(sigma: float, convention: Convention) -> float:
    """Return gamma of the kernel exp(−gamma ‖x − y‖²), given ``sigma`` in one of three conventions.

    Examples
    --------
    >>> [kernel_gamma(0.5, convention) for convention in CONVENTIONS]
    [2.0, 0.125, 0.5]
    """
    if not 0 < sigma < math.inf:
        raise ParamsError(f"rff.sigma: a number above 0, not {sigma!r}")
    if convention == "bandwidth":  # eq. (3): exp(−‖x−y‖² / (2σ²)), ω ~ N(0, σ⁻² I)
        return 1 / (2 * sigma**2)
    if convention == "spread":  # robustness analysis: ω ~ N(0, σ² I)
        return sigma**2 / 2
    if convention == "gamma":  # the released code: ω ~ N(0, 2σ I)
        return sigma
    raise ParamsError(f"rff.convention: no convention {convention!r}{did_you_mean(str(convention), CONVENTIONS)}")


def median_bandwidth(x: Rows) -> float:
    """Return the median distance between distinct normalised rows (n, d), for sigma in the convention ``bandwidth``.

    Pass the source's rows: the basis is fixed before the target is read. At most `MEDIAN_ROWS` rows, evenly spaced, are
    read and compared.
    """
    rows = unit_rows(x[np.arange(0, len(x), -(-len(x) // MEDIAN_ROWS))])
    distances = np.sqrt(_squared_distances(rows))[np.triu_indices(len(rows), k=1)]
    distances = distances[distances > 1e-6]  # ignore copies of an image
    if not distances.size:
        raise InputError("median bandwidth: fewer than two different rows to measure between")
    return float(np.median(distances))


def draw_basis(
    d: int, D: int, sigma: float, convention: Convention, seed: int, *, orthogonal: bool = False, d_clip: int = 0
) -> Basis:
    """Draw ω ~ N(0, 2·gamma·I) and β ~ U(0, 2π) of eq. (7).

    Parameters
    ----------
    d, D : int
        Embedding width, number of Fourier features.
    convention : {"bandwidth", "spread", "gamma"}
        Meaning of ``sigma``, see `kernel_gamma`.
    orthogonal : bool
        Make the frequencies of each group of d columns orthogonal, with the lengths of Gaussian vectors (Yu et al.,
        2016): the same kernel with a smaller error.
    d_clip : int
        Also draw frequencies for CLIP embeddings of this width, from separate random streams: the vision part is the
        same without them.

    Examples
    --------
    >>> basis = draw_basis(d=3, D=8, sigma=1.0, convention="bandwidth", seed=0)
    >>> basis.omega.shape, basis.gamma
    ((3, 8), 0.5)
    >>> narrow = draw_basis(d=3, D=5, sigma=1.0, convention="bandwidth", seed=0)
    >>> bool((narrow.omega == basis.omega[:, :5]).all())
    True
    """
    if d < 1 or D < 1:
        raise ParamsError(f"rff: d = {d} and D = {D} must both be at least 1")
    if seed < 0:
        raise ParamsError(f"rff.seed: a whole number from 0 on, not {seed!r}")
    gamma = kernel_gamma(sigma, convention)
    scale = np.float32(math.sqrt(2 * gamma))
    omega = scale * _draw_frequencies(d, D, seed, 0, orthogonal=orthogonal)
    clip_omega = scale * _draw_frequencies(d_clip, D, seed, 1, orthogonal=orthogonal) if d_clip else None
    beta = np.empty(D, dtype=np.float32)
    for block, start in enumerate(range(0, D, COLUMNS)):
        drawn = 2 * math.pi * _stream(seed, 2, block).random(COLUMNS)
        beta[start : start + COLUMNS] = drawn[: D - start]
    return Basis(omega, beta, gamma, gamma, clip_omega)


def _draw_frequencies(d: int, D: int, seed: int, part: int, *, orthogonal: bool) -> npt.NDArray[np.float32]:
    """Draw ω ~ N(0, I), (d, D)."""
    width = d if orthogonal else COLUMNS
    omega = np.empty((d, D), dtype=np.float32)
    for block, start in enumerate(range(0, D, width)):
        generator = _stream(seed, part, block)
        drawn = generator.standard_normal((d, width))
        if orthogonal:  # d columns of uniform direction, with chi-distributed lengths
            q, r = np.linalg.qr(drawn)
            lengths = np.sqrt(generator.chisquare(d, size=d))
            # the signs of R's diagonal make Q uniform over rotations, and independent of LAPACK's choice
            drawn = q * (np.sign(np.diag(r)) * lengths)
        omega[:, start : start + width] = drawn[:, : D - start]
    return omega


def _stream(seed: int, part: int, block: int) -> np.random.Generator:
    """Return the random generator of a block of columns; each has its own, so that no draw depends on D."""
    key = np.random.SeedSequence(seed, spawn_key=(part, block))
    return np.random.Generator(np.random.Philox(key))


def deviations(basis: Basis, x: Matrix) -> npt.NDArray[np.float32]:
    """Return z(x) − z(0), (n, D) float32, of the normalised rows (n, d): eq. (7) about the pivot.

    If the basis has `directions` Q, return the coordinates Qᵀ(z(x) − z(0)), (n, r).

    Examples
    --------
    >>> basis = draw_basis(d=2, D=4000, sigma=1.0, convention="bandwidth", seed=0)
    >>> z = deviations(basis, np.array([[1.0, 0.0], [0.0, 1.0]])) + basis.pivot
    >>> round(float(z[0] @ z[1]), 1), round(math.exp(-0.5 * 2), 1)
    (0.4, 0.4)
    """
    if basis.directions is None:
        return from_phases(phases(basis, x), basis.beta, basis.scale)
    full, coordinates = replace(basis, directions=None), np.empty((len(x), basis.width), np.float32)
    for start in range(0, len(x), ROWS):  # by blocks, to avoid n × D numbers in memory
        block = slice(start, start + ROWS)
        np.matmul(deviations(full, x[block]), basis.directions.Q, out=coordinates[block])
    return coordinates


def from_phases(half: npt.NDArray[np.float32], beta: npt.NDArray[np.float32], scale: float) -> npt.NDArray[np.float32]:
    """Return scale·(cos(a + β) − cos β), (n, k), for phases a (n, k), which are overwritten, and β (k,)."""
    half *= np.float32(0.5)
    shifted = half + beta
    np.sin(half, out=half)
    np.sin(shifted, out=shifted)
    half *= shifted
    half *= np.float32(-2 * scale)
    return half


def phases(basis: Basis, x: Matrix) -> npt.NDArray[np.float32]:
    """Return the phases ωᵀx, (n, D) float32, of the normalised rows (n, d)."""
    if x.ndim != 2 or x.shape[1] != basis.d:
        raise InputError(f"embeddings: shape {x.shape} does not fit a basis of d = {basis.d}")
    return np.asarray(unit_rows(x).astype(np.float32) @ basis.omega)


class KernelError(NamedTuple):
    """Errors of the approximated kernel over the pairs of a sample of rows."""

    kernel_rms: float  # root mean square of z(x)ᵀz(y) − K(x, y)
    kernel_max: float  # maximum of |z(x)ᵀz(y) − K(x, y)|
    distance_rms: float  # root mean square of ‖z(x) − z(y)‖² / (2 − 2K) − 1, which matters to LDA when K ≈ 1


def kernel_error(basis: Basis, x: Matrix) -> KernelError:
    """Compare the approximated kernel, eq. (8), with the exact one, eq. (3), on the rows of ``x`` (n, d)."""
    squared = _squared_distances(unit_rows(x))
    delta = deviations(basis, x).astype(np.float64)
    # z zᵀ = (δ + pivot)(δ + pivot)ᵀ
    shift = delta @ basis.pivot
    gram = delta @ delta.T + shift[:, None] + shift[None, :] + basis.pivot @ basis.pivot
    error = gram - np.exp(-basis.gamma * squared)
    pairs = np.triu_indices(len(x), k=1)
    exact = -2 * np.expm1(-basis.gamma * squared[pairs])
    distinct = squared[pairs] > 1e-12
    relative = _squared_distances(delta)[pairs][distinct] / exact[distinct] - 1
    return KernelError(
        kernel_rms=float(np.sqrt(np.mean(error**2))),
        kernel_max=float(np.abs(error).max()),
        distance_rms=float(np.sqrt(np.mean(relative**2))) if relative.size else 0.0,
    )


def _squared_distances(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the squared distances ‖x − y‖² of all pairs of rows, (n, n)."""
    norms = np.einsum("nd,nd->n", rows, rows)
    return np.asarray(np.maximum(norms[:, None] + norms[None, :] - 2 * (rows @ rows.T), 0))
