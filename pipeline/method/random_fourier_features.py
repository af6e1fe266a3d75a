"""Random Fourier features of the Gaussian kernel, eqs. (3)–(8), about a pivot.

z(x) = sqrt(2/D) · cos(ωᵀx + β), eq. (7), so that z(x)ᵀz(y) ≈ K(x, y) = exp(−gamma ‖x − y‖²).
Three meanings of sigma are in circulation; `CONVENTIONS` names them, and every basis knows the
``gamma`` of its kernel, whatever the name it was drawn under.

With gamma = 1e-4 and unit rows ωᵀx is about 0.01: z is cos β plus a deviation of one per cent, and
what matters is the deviation. `deviation` computes z(x) − z(0) from

    cos(a + b) − cos(b) = −2 sin(a/2) sin(b + a/2)

where nothing cancels: float32 keeps its seven digits of the deviation itself.

Bases are nested: column j depends on (seed, j) alone (orthogonal bases: and on d), so that the
first D' columns of a basis for D are the basis for D'.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError, ParamsError, did_you_mean
from pipeline.method.blas_products import product
from pipeline.method.zero_shot import Matrix, unit_rows

Convention = Literal["bandwidth", "spread", "gamma"]
CONVENTIONS = ("bandwidth", "spread", "gamma")
COLUMNS = 64  # drawn together from one generator; changing it changes every basis
MEDIAN_ROWS = 2000  # more rows than this do not move the median


@dataclass(frozen=True)
class Basis:
    """The frequencies and phases shared by source and target.

    omega: (d, D) float32. beta: (D,) float32. gamma: of the kernel exp(−gamma ‖x − y‖²).
    members: how many bases stand side by side in it, D / members columns each: an ensemble. Each member is a basis
    of its own, with features scaled by sqrt(2 / columns) and, in the method, a covariance of its own.
    clip: (d', D) float32, frequencies for CLIP's embedding of the image, if it may enter the kernel (`joint`).
    device: where torch makes the statistics of its features; empty: NumPy and BLAS do, in this process's memory.
    """

    omega: npt.NDArray[np.float32]
    beta: npt.NDArray[np.float32]
    gamma: float
    members: int = 1
    clip: npt.NDArray[np.float32] | None = None
    device: str = ""

    def __post_init__(self) -> None:
        """Refuse shapes that do not belong together."""
        if self.members < 1 or self.D % self.members:
            raise InputError(f"basis: {self.D} columns are not {self.members} bases of one width")
        if self.omega.ndim != 2 or self.beta.shape != self.omega.shape[1:]:
            shapes = f"omega {self.omega.shape} and beta {self.beta.shape}"
            raise InputError(f"basis: {shapes} are not (d, D) and (D,)")

    @property
    def d(self) -> int:
        """Embedding width."""
        return int(self.omega.shape[0])

    @property
    def D(self) -> int:  # noqa: N802  the paper's name
        """Number of Fourier features."""
        return int(self.omega.shape[1])

    @property
    def scale(self) -> float:
        """sqrt(2/D) of eq. (7); in an ensemble each member's own."""
        return math.sqrt(2 * self.members / self.D)

    @property
    def columns(self) -> list[slice]:
        """The columns of each member."""
        width = self.D // self.members
        return [slice(m * width, (m + 1) * width) for m in range(self.members)]

    def member(self, m: int) -> Basis:
        """Return one basis of the ensemble."""
        columns = self.columns[m]
        clip = None if self.clip is None else self.clip[:, columns]
        return replace(
            self, omega=self.omega[:, columns], beta=self.beta[columns], members=1, clip=clip
        )

    def joint(self) -> Basis:
        """Return the basis of vision and CLIP embeddings side by side, d + d' wide."""
        if self.clip is None:
            raise InputError("basis: it has no frequencies for CLIP's embeddings; run dvc repro")
        return replace(self, omega=np.vstack([self.omega, self.clip]), clip=None)

    @property
    def pivot(self) -> npt.NDArray[np.float64]:
        """z(0) = sqrt(2/D) cos β, (D,): what `deviation` is measured from."""
        return self.scale * np.cos(self.beta.astype(np.float64))

    def nested(self, D: int) -> Basis:
        """Return the basis of the first ``D`` columns."""
        if self.members > 1:
            raise ParamsError("rff.bases: an ensemble of bases is not nested in D")
        if not 1 <= D <= self.D:
            raise ParamsError(f"rff.D: {D} features are not among the {self.D} of this basis")
        clip = None if self.clip is None else self.clip[:, :D]
        return replace(self, omega=self.omega[:, :D], beta=self.beta[:D], clip=clip)


def gamma_of(sigma: float, convention: Convention) -> float:
    """Return the gamma of the kernel exp(−gamma ‖x − y‖²) that ``sigma`` means."""
    if not 0 < sigma < math.inf:
        raise ParamsError(f"rff.sigma: a number above 0, not {sigma!r}")
    if convention == "bandwidth":  # eq. (3): exp(−‖x−y‖² / (2σ²)), ω ~ N(0, σ⁻² I)
        return 1 / (2 * sigma**2)
    if convention == "spread":  # robustness analysis: ω ~ N(0, σ² I)
        return sigma**2 / 2
    if convention == "gamma":  # the released code: ω ~ N(0, 2σ I)
        return sigma
    hint = did_you_mean(str(convention), CONVENTIONS)
    raise ParamsError(f"rff.convention: no convention {convention!r}{hint}")


def median_bandwidth(x: Matrix) -> float:
    """Return the median distance between distinct unit rows of ``x`` (n, d): sigma as `bandwidth`.

    At most `MEDIAN_ROWS` rows, evenly spaced, are compared. Call it with source rows: the basis is
    fixed before the target is seen.
    """
    step = -(-len(x) // MEDIAN_ROWS)
    rows = unit_rows(x[::step])
    distances = np.sqrt(_squared_distances(rows))[np.triu_indices(len(rows), k=1)]
    distances = distances[distances > 1e-6]  # copies of an image say nothing about the scale
    if not distances.size:
        raise InputError("median bandwidth: fewer than two different rows to measure between")
    return float(np.median(distances))


def draw_basis(
    d: int,
    D: int,
    sigma: float,
    convention: Convention,
    seed: int,
    *,
    orthogonal: bool = False,
    d_clip: int = 0,
) -> Basis:
    """Draw ω ~ N(0, 2·gamma·I), (d, D), and β ~ U(0, 2π), (D,), eq. (7).

    orthogonal: the frequencies of each run of d columns are orthogonal with the lengths of Gaussian
    vectors (Yu et al., 2016): the same kernel, a smaller error. d_clip: also draw frequencies for CLIP embeddings of
    that width, from streams of their own: the vision part is the same without them.
    """
    if d < 1 or D < 1:
        raise ParamsError(f"rff: d = {d} and D = {D} must both be at least 1")
    if seed < 0:
        raise ParamsError(f"rff.seed: a whole number from 0 on, not {seed!r}")
    gamma = gamma_of(sigma, convention)
    omega = _draw_frequencies(d, D, seed, 0, orthogonal=orthogonal)
    clip = _draw_frequencies(d_clip, D, seed, 1, orthogonal=orthogonal) if d_clip else None
    beta = np.empty(D, dtype=np.float32)
    for block, start in enumerate(range(0, D, COLUMNS)):
        drawn = 2 * math.pi * _stream(seed, 2, block).random(COLUMNS)
        beta[start : start + COLUMNS] = drawn[: D - start]
    scale = np.float32(math.sqrt(2 * gamma))
    return Basis(scale * omega, beta, gamma, clip=None if clip is None else scale * clip)


def _draw_frequencies(
    d: int, D: int, seed: int, part: int, *, orthogonal: bool
) -> npt.NDArray[np.float32]:
    """Draw ω ~ N(0, I), (d, D)."""
    width = d if orthogonal else COLUMNS
    draw = _orthogonal_block if orthogonal else _gaussian_block
    omega = np.empty((d, D), dtype=np.float32)
    for block, start in enumerate(range(0, D, width)):
        omega[:, start : start + width] = draw(_stream(seed, part, block), d)[:, : D - start]
    return omega


def _stream(seed: int, part: int, block: int) -> np.random.Generator:
    """Return a counter-based generator of its own for each block of columns: no draw depends on D."""
    key = np.random.SeedSequence(seed, spawn_key=(part, block))
    return np.random.Generator(np.random.Philox(key))


def draw_ensemble(
    d: int,
    D: int,
    sigma: float,
    convention: Convention,
    seed: int,
    *,
    orthogonal: bool = False,
    members: int = 1,
    d_clip: int = 0,
) -> Basis:
    """Draw ``members`` independent bases of ``D`` columns, side by side; the first is `draw_basis`'s."""
    if members < 1:
        raise ParamsError(f"rff.bases: a whole number from 1 on, not {members!r}")
    # member m > 0 has a seed of its own far from the users' 0, 1, 2, …
    seeds = [
        seed,
        *(int(np.random.SeedSequence([seed, m]).generate_state(1)[0]) for m in range(1, members)),
    ]
    drawn = [
        draw_basis(d, D, sigma, convention, s, orthogonal=orthogonal, d_clip=d_clip) for s in seeds
    ]
    if members == 1:
        return drawn[0]
    omega, beta = np.hstack([b.omega for b in drawn]), np.hstack([b.beta for b in drawn])
    clip = np.hstack([b.clip for b in drawn if b.clip is not None]) if d_clip else None
    return Basis(omega, beta, drawn[0].gamma, members, clip)


def _gaussian_block(generator: np.random.Generator, d: int) -> npt.NDArray[np.float64]:
    return generator.standard_normal((d, COLUMNS))


def _orthogonal_block(generator: np.random.Generator, d: int) -> npt.NDArray[np.float64]:
    """Return d orthogonal columns (d, d) of uniform direction, with chi-distributed lengths."""
    q, r = np.linalg.qr(generator.standard_normal((d, d)))
    lengths = np.sqrt(generator.chisquare(d, size=d))
    # the signs of R's diagonal make Q uniform over rotations, and independent of LAPACK's choice
    return np.asarray(q * (np.sign(np.diag(r)) * lengths), dtype=np.float64)


def features(basis: Basis, x: Matrix) -> npt.NDArray[np.float32]:
    """Return z(x), (n, D) float32, eq. (7), of the L2-normalised rows of ``x`` (n, d)."""
    z = _phases(basis, x)
    z += basis.beta
    np.cos(z, out=z)
    z *= np.float32(basis.scale)
    return z


def deviation(basis: Basis, x: Matrix) -> npt.NDArray[np.float32]:
    """Return z(x) − z(0), (n, D) float32, of L2-normalised rows, without cancellation."""
    half = _phases(basis, x)
    half *= np.float32(0.5)
    shifted = half + basis.beta
    np.sin(half, out=half)
    np.sin(shifted, out=shifted)
    half *= shifted
    half *= np.float32(-2 * basis.scale)
    return half


def _phases(basis: Basis, x: Matrix) -> npt.NDArray[np.float32]:
    """Return ωᵀx, (n, D) float32, of the L2-normalised rows."""
    if x.ndim != 2 or x.shape[1] != basis.d:
        raise InputError(f"embeddings: shape {x.shape} does not fit a basis of d = {basis.d}")
    return np.asarray(product(unit_rows(x).astype(np.float32), basis.omega))


class KernelError(NamedTuple):
    """How far a basis is from its kernel, over the pairs of a sample of rows."""

    kernel_rms: float  # of z(x)ᵀz(y) − K(x, y)
    kernel_max: float
    distance_rms: float  # of (‖z(x) − z(y)‖² − D²) / D², D² = 2 − 2K: what LDA sees when K ≈ 1


def kernel_error(basis: Basis, x: Matrix) -> KernelError:
    """Compare the features' kernel, eq. (8), with the exact one, eq. (3), on the rows of ``x``."""
    squared = _squared_distances(unit_rows(x))
    delta = deviation(basis, x).astype(np.float64)
    # z zᵀ = (δ + pivot)(δ + pivot)ᵀ
    shift = delta @ basis.pivot
    gram = delta @ delta.T + shift[:, None] + shift[None, :] + basis.pivot @ basis.pivot
    error = gram - np.exp(-basis.gamma * squared)
    pairs = np.triu_indices(len(x), k=1)
    exact = -2 * np.expm1(-basis.gamma * squared[pairs])
    told_apart = squared[pairs] > 1e-12
    relative = _squared_distances(delta)[pairs][told_apart] / exact[told_apart] - 1
    return KernelError(
        kernel_rms=float(np.sqrt(np.mean(error**2))),
        kernel_max=float(np.abs(error).max()),
        distance_rms=float(np.sqrt(np.mean(relative**2))) if relative.size else 0.0,
    )


def _squared_distances(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return ‖x − y‖² of all pairs of rows, (n, n)."""
    norms = np.einsum("nd,nd->n", rows, rows)
    return np.asarray(np.maximum(norms[:, None] + norms[None, :] - 2 * (rows @ rows.T), 0))
