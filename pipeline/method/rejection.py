"""Rejection of images of none of the candidate classes, before they enter the statistics (docs/method.md).

    s_c(x) = cos(g − ḡ, m_c − m̄)          k_c(x) = cos(CLIP's embeddings of x and of class c)
    u(x) = −max_c (s_c − mean s_c) / sd(s) − max_c (k_c − mean k_c) / sd(k)

g is the unit vision embedding of the image, ḡ the mean over the target's images, m_c the source's mean of class c, m̄
the mean of those means: what shifts all images alike cancels. Means are over the target's images, one standard
deviation is taken for all classes. v(x) is u(x) with the second largest in place of the largest: what u would be if the
image's class were none of the candidates. An image is unknown if u exceeds Otsu's threshold, which parts a histogram
of all u and v in two with the greatest variance between the parts; where all images are known, it parts the u from the
v and rejects few. No label, kernel or classifier is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.method.rows import (
    BLOCK_IMAGES,
    Index,
    Matrix64,
    Rows,
    UnlabelledRows,
    Vector64,
    row_blocks,
    unit_rows,
)

# u is a sum of two standardised numbers; what lies beyond counts in the outer bins
EDGES = np.linspace(-12.0, 12.0, 481)


@dataclass(frozen=True, eq=False)
class RejectionState:
    """What rejection keeps of all images so far: sums, so that two states add.

    Attributes
    ----------
    embedding : ndarray of shape (d + 1,)
        Σg, and the number of images.
    moments : ndarray of shape (5, K)
        Of each class: the number of images, Σs, Σs², Σk, Σk².
    histogram : ndarray of shape (480,)
        How many u and v are in each bin.
    """

    embedding: Vector64
    moments: Matrix64
    histogram: Vector64

    def __add__(self, other: RejectionState) -> RejectionState:
        """Return the state of the images of both; a class that one has not met has no images there.

        Examples
        --------
        >>> one = RejectionState(np.ones(3), np.ones((5, 1)), np.zeros(480))
        >>> (one + RejectionState(np.ones(3), np.ones((5, 2)), np.zeros(480))).moments[0]
        array([2., 1.])
        """
        K = max(self.moments.shape[1], other.moments.shape[1])
        moments = sum(
            np.pad(m, ((0, 0), (0, K - m.shape[1]))) for m in (self.moments, other.moments)
        )
        return RejectionState(
            self.embedding + other.embedding, np.asarray(moments), self.histogram + other.histogram
        )

    @property
    def threshold(self) -> float:
        """The u above which an image is unknown."""
        return otsu_threshold(self.histogram)


def empty_state(d: int) -> RejectionState:
    """Return the state before the first image of embeddings of ``d`` numbers."""
    return RejectionState(np.zeros(d + 1), np.zeros((5, 0)), np.zeros(len(EDGES) - 1))


def reject(
    state: RejectionState, rows: UnlabelledRows, means: Matrix64
) -> tuple[RejectionState, npt.NDArray[np.bool_]]:
    """Return the state with a task's images, and which of them are of none of the source's classes.

    Parameters
    ----------
    state : RejectionState
        Of the earlier tasks.
    rows : UnlabelledRows
        The task's n images.
    means : ndarray of shape (K, d)
        Source means of the unit embeddings of all the source's classes, the same for every task: with those seen so
        far alone, m̄ would move, and the sums of earlier tasks with it.

    Returns
    -------
    state : RejectionState
    unknown : ndarray of bool of shape (n,)
        Whether u exceeds the threshold of all images so far, these included.
    """
    n, none = len(rows), np.zeros(len(EDGES) - 1)
    total = np.zeros_like(state.embedding)
    for index in row_blocks(n, BLOCK_IMAGES):
        total[:-1] += unit_rows(rows.views["original"][index]).sum(axis=0)
    total[-1] = n
    state += RejectionState(total, np.zeros((5, len(means))), none)
    s, k = _similarities(state, rows, means)
    moments = np.stack(
        [np.full(len(means), float(n)), *(x.sum(axis=0) for x in (s, s**2, k, k**2))]
    )
    state += RejectionState(np.zeros_like(total), moments, none)
    u, v = _scores(state, s, k)
    histogram = _histogram(np.concatenate([u, v]))
    state += RejectionState(np.zeros_like(total), np.zeros((5, len(means))), histogram)
    return state, u > state.threshold


def unknownness(state: RejectionState, rows: UnlabelledRows, means: Matrix64) -> Vector64:
    """Return u (n,) of images over the K classes of source ``means`` (K, d); unknown above ``state.threshold``."""
    return _scores(state, *_similarities(state, rows, means))[0]


def unknown_confidence(state: RejectionState, rows: UnlabelledRows, means: Matrix64) -> Vector64:
    """Return 1 / (1 + exp(θ − u)), (n,): ½ at the threshold θ, as u counts standard deviations."""
    return np.asarray(1 / (1 + np.exp(state.threshold - unknownness(state, rows, means))))


def otsu_threshold(histogram: Vector64) -> float:
    """Return the edge that parts a histogram over `EDGES` with the greatest variance between the parts.

    Of several the middle one (an empty stretch between two heaps); infinity if all is in one bin.

    Examples
    --------
    >>> values = np.zeros(480)
    >>> values[[100, 300]] = 5
    >>> round(otsu_threshold(values), 2)
    -1.97
    """
    centres = (EDGES[:-1] + EDGES[1:]) / 2
    below, total = np.cumsum(histogram), histogram.sum()
    mass = np.cumsum(histogram * centres)
    above = total - below
    with np.errstate(divide="ignore", invalid="ignore"):
        between = (mass[-1] * below / total - mass) ** 2 / (below * above)
    between = np.where((below > 0) & (above > 0), between, -1.0)
    if between.max() <= 0:
        return float("inf")
    best = np.flatnonzero(between >= between.max() * (1 - 1e-12))
    return float((EDGES[best[0] + 1] + EDGES[best[-1] + 1]) / 2)


def _histogram(u: Vector64) -> Vector64:
    inside = np.clip(u, EDGES[0], np.nextafter(EDGES[-1], 0))
    return np.histogram(inside, EDGES)[0].astype(np.float64)


def _similarities(
    state: RejectionState, rows: UnlabelledRows, means: Matrix64
) -> tuple[Matrix64, Matrix64]:
    """Return s and k (n, K)."""
    K, mean = len(means), state.embedding[:-1] / max(state.embedding[-1], 1.0)
    # a single class has no other to be told from
    directions = unit_rows(means - means.mean(axis=0)) if K > 1 else unit_rows(means)
    s, k = np.empty((len(rows), K)), np.empty((len(rows), K))
    for index in row_blocks(len(rows), BLOCK_IMAGES):
        s[index] = unit_rows(_centred(rows.views["original"], index, mean)) @ directions.T
        k[index] = rows.cosines[index][:, :K]
    return s, k


def _centred(rows: Rows, index: Index, mean: Vector64) -> Matrix64:
    return np.asarray(unit_rows(rows[index]) - mean)


def _scores(state: RejectionState, s: Matrix64, k: Matrix64) -> tuple[Vector64, Vector64]:
    """Return u (n,) and v (n,); of a single class there is no v."""
    K = s.shape[1]
    moments = state.moments[:, :K]
    n = np.maximum(moments[0], 1.0)
    scores = np.zeros((min(K, 2), len(s)))
    for similarity, first, second in ((s, moments[1], moments[2]), (k, moments[3], moments[4])):
        mean = first / n
        sd = np.sqrt(np.mean(np.maximum(second / n - mean**2, 0.0)))
        standardised = (similarity - mean) / max(float(sd), 1e-12)
        best = np.partition(standardised, K - len(scores), axis=1)[:, K - len(scores) :]
        scores -= np.sort(best, axis=1)[:, ::-1].T
    return scores[0], scores[1] if K > 1 else scores[0, :0]
