"""Fuse both branches into pseudo-labels: alignment, fusion (14), nearest neighbours, weights (18) and gate.

- `aligned` subtracts the shift of the domain from a task's scores F, eq. (13). The mean z̄ of a task's rows should be
  Σ_c π_c μ_c, the source's class means weighted by the task's class shares π (`expected_shares`). The shift is
  Δ = z̄ − Σ_c π_c μ_c. The source's classifier labels z − Δ: F(z − Δ) = F(z) − ΔᵀW, and ΔᵀW follows from z̄ᵀW, which is
  the mean score minus the bias.
- `fuse` is eq. (14), the same code for adapting and testing.
- `smoothed` averages over nearest neighbours, since similar images tend to be of the same class:
  p̂_i ← ½ p̂_i + ½ Σ_j M_ij p̂_j, where M (n, n) has 1/k at the k nearest others of each image by the cosine of the
  vision model's embeddings of the original view. Neighbours are images of the same task. They depend on no label and no
  classifier, so they are found once per task. k is at most half the mean size of a class, n // 2c, so that an image of
  a small task is not outvoted by other classes.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.method.kernel_lda import Classifier
from pipeline.method.rows import BLOCK_IMAGES, Index, Labels, Matrix64, Rows, Vector64, row_blocks, unit_rows
from pipeline.method.variants import FusionKind

MARGIN_RANGE = (0.2, 0.8)
COSINES = 2**22  # maximum number in memory (16 MB, and 32 MB for their order): a task may have 100,000 images


@dataclass(frozen=True, eq=False)
class PseudoLabels:
    """Pseudo-labels of a task's n images."""

    label: npt.NDArray[np.intp]  # (n,) class of each image
    fused: Matrix64  # (n, c) p̂ over the task's classes, eq. (14)
    weight: Vector64  # (n,) ω, eq. (18)
    kept: npt.NDArray[np.bool_]  # (n,) whether each image passed the gate and enters the statistics


def expected_shares(p_vlm: Matrix64) -> Vector64:
    """Return class shares π (c,) of a task: the average of equal shares and the mean of CLIP's probabilities (n, c).

    CLIP's mean is unaffected by the shift of the vision model, but biased towards classes that CLIP prefers in this
    domain. Averaged with equal shares it is as close to the true shares where these are far from equal, and closer
    where they are not (docs/evidence.md).

    Examples
    --------
    >>> expected_shares(np.array([[1.0, 0.0], [0.6, 0.4]])).tolist()
    [0.65, 0.35]
    """
    return np.asarray((p_vlm.mean(axis=0) + 1 / p_vlm.shape[1]) / 2)


def aligned(scores: Matrix64, classifier: Classifier, means: Matrix64, classes: Labels, shares: Vector64) -> Matrix64:
    """Return the scores (V, n, c) of a task's rows, eq. (13), with its shift subtracted.

    ``classifier`` and ``means`` (K, D; minus the pivot) are the source's; ``shares`` (c,) are π of ``classes`` (c,).
    """
    observed = scores.mean(axis=(0, 1)) - classifier.b[classes]  # z̄ᵀW
    expected = shares @ (means[classes] @ classifier.W[:, classes])  # Σ_c π_c μ_cᵀW
    return np.asarray(scores - (observed - expected))


def fusion_weight(p: Matrix64, p_vlm: Matrix64, kind: FusionKind) -> Vector64:
    """Return the weight α, (n,), of the KLDA branch in eq. (14) from both branches' probabilities (n, C).

    ``max_probability``: max p / (max p + max p_VLM), as in the paper ("arg max" in print). ``margin``: the same ratio
    of top-2 margins, clamped to [0.2, 0.8], as in the released code. ``klda``, ``clip``: one branch alone.
    """
    if kind == "klda":
        return np.ones(len(p))
    if kind == "clip":
        return np.zeros(len(p))
    if kind == "max_probability":
        return _share(p.max(axis=1), p_vlm.max(axis=1))
    return np.clip(_share(_margin(p), _margin(p_vlm)), *MARGIN_RANGE)


def fuse(p: Matrix64, p_vlm: Matrix64, kind: FusionKind = "max_probability") -> Matrix64:
    """Return p̂ = α p + (1 − α) p_VLM, (n, C), of both branches' probabilities (n, C), eq. (14).

    Examples
    --------
    >>> fuse(np.array([[0.75, 0.25]]), np.array([[0.25, 0.75]])).tolist()
    [[0.5, 0.5]]
    """
    alpha = fusion_weight(p, p_vlm, kind)[:, None]
    return np.asarray(alpha * p + (1 - alpha) * p_vlm)


def _share(part: Vector64, rest: Vector64) -> Vector64:
    """Return part / (part + rest), or one half where both are zero."""
    total = part + rest
    return np.divide(part, total, out=np.full_like(total, 0.5), where=total > 0)


def _margin(p: Matrix64) -> Vector64:
    """Return the difference of the two largest values of each row, or the only value if there is one class."""
    if p.shape[1] == 1:
        return np.asarray(p[:, 0])
    top = np.partition(p, -2, axis=1)
    return np.asarray(top[:, -1] - top[:, -2])


def nearest_neighbours(rows: Rows, k: int) -> Index:
    """Return the row numbers (n, k) of each row's k nearest other embeddings (n, d), or of all others if fewer.

    A single image is its own neighbour, and so is every image if k is 0: `smoothed` then changes nothing.

    Examples
    --------
    >>> nearest_neighbours(np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), 1).ravel()
    array([1, 0, 1])
    """
    n = len(rows)
    k = min(k, n - 1)
    if k < 1:
        return np.arange(n)[:, None]
    unit = np.concatenate([unit_rows(rows[block]).astype(np.float32) for block in row_blocks(n, BLOCK_IMAGES)])
    nearest = np.empty((n, k), dtype=np.intp)
    for block in row_blocks(n, max(1, min(BLOCK_IMAGES, COSINES // n))):
        cosine = unit[block] @ unit.T
        cosine[np.arange(len(block)), block] = -np.inf  # an image is not its own neighbour
        nearest[block] = np.argpartition(cosine, -k, axis=1)[:, -k:]
    return nearest


def smoothed(p: Matrix64, nearest: Index) -> Matrix64:
    """Return each row of probabilities (n, c) averaged, half and half, with the mean of its neighbours' rows."""
    mean, share = np.zeros_like(p), 1 / nearest.shape[1]
    for column in nearest.T:  # a sparse matrix would work too, but take a tenth of a second to import
        mean += share * p[column]
    return 0.5 * p + 0.5 * mean


def entropies(p: Matrix64) -> Vector64:
    """Return the entropy H (n,), in nats, of each row of probabilities p (n, C); 0·log 0 is 0."""
    return np.asarray(-(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=1)) + 0.0


def entropy_weights(fused: Matrix64, *, floor: float = 0.0) -> Vector64:
    """Return weights ω = 1 − H(p̂) / log c, (n,), of p̂ (n, c), eq. (18), at least ``floor``; 1 for a single class.

    Examples
    --------
    >>> entropy_weights(np.array([[1.0, 0.0], [0.5, 0.5]])).tolist(), entropy_weights(np.array([[1.0]])).tolist()
    ([1.0, 0.0], [1.0])
    """
    n, classes = fused.shape
    if classes == 1:
        return np.ones(n)
    return np.clip(1 - entropies(fused) / math.log(classes), floor, 1.0)


def gate(fused: Matrix64, threshold: float) -> npt.NDArray[np.bool_]:
    """Return whether each sample (n,) keeps its pseudo-label: max p̂ is at least ``threshold``."""
    return np.asarray(fused.max(axis=1) >= threshold)
