"""Images of none of the candidate classes are rejected before they enter the statistics (docs/method.md):

    s_c(x) = cos(g − ḡ, m_c − m̄)          k_c(x) = cos(CLIP's embeddings of x and of class c)
    u(x) = −max_c (s_c − mean s_c) / sd(s) − max_c (k_c − mean k_c) / sd(k)

g is the unit vision embedding of the image, ḡ the mean over the target's images, m_c the source's mean of class c, m̄
the mean of those means: what shifts all images alike cancels. Means are over the target's images, one standard
deviation is taken for all classes. v(x) is u(x) with the second largest in place of the largest: what u would be if the
image's class were none of the candidates. An image is unknown if u exceeds Otsu's threshold, which parts a histogram
of all u and v in two with the greatest variance between the parts; where all images are known, it parts the u from the
v and rejects few. No label, kernel or classifier is needed.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pipeline.method.continual_metrics import Answers
from pipeline.method.rows import BLOCK_IMAGES, Labels, Matrix64, UnlabelledRows, Vector64, row_blocks, unit_rows

# u is a sum of two standardised numbers; what lies beyond counts in the outer bins
EDGES = np.linspace(-12.0, 12.0, 481)


@dataclass(frozen=True, eq=False)
class RejectionState:
    """What rejection keeps of all images so far: sums, so that two states add."""

    embedding: Vector64  # (d + 1,) Σg, and the number of images
    moments: Matrix64  # (5, K) of each class: the number of images, Σs, Σs², Σk, Σk²
    histogram: Vector64  # (480,) how many u and v are in each bin

    def __add__(self, other: "RejectionState") -> "RejectionState":
        """Return the state of the images of both; a class that one has not met has no images there."""
        K = max(self.moments.shape[1], other.moments.shape[1])
        moments = sum(np.pad(m, ((0, 0), (0, K - m.shape[1]))) for m in (self.moments, other.moments))
        return RejectionState(self.embedding + other.embedding, np.asarray(moments), self.histogram + other.histogram)


@dataclass(frozen=True, eq=False)
class Rejector:
    """Scores images by the sums of a `RejectionState`; made by `rejector`."""

    centre: Vector64  # (d,) ḡ
    directions: Matrix64  # (K, d) unit m_c − m̄
    mean: Matrix64  # (2, K) of s and of k
    sd: Vector64  # (2,)
    threshold: float  # the u above which an image is unknown

    def scores(self, s: Matrix64, k: Matrix64) -> tuple[Vector64, Vector64]:
        """Return u (n,) and v (n,) of s and k (n, K); of a single class there is no v."""
        scores = np.zeros((min(s.shape[1], 2), len(s)))
        for similarity, mean, sd in zip((s, k), self.mean, self.sd, strict=True):
            ranked = np.sort((similarity - mean) / sd, axis=1)
            scores -= ranked[:, : -len(scores) - 1 : -1].T
        return scores[0], scores[1:].ravel()

    def similarities(self, rows: UnlabelledRows) -> tuple[Matrix64, Matrix64]:
        """Return s and k (n, K) of images."""
        K = len(self.directions)
        s, k = np.empty((len(rows), K)), np.empty((len(rows), K))
        for index in row_blocks(len(rows), BLOCK_IMAGES):
            g = unit_rows(rows.views["original"][index])
            s[index] = unit_rows(g - self.centre) @ self.directions.T
            k[index] = rows.cosines[index][:, :K]
        return s, k

    def unknownness(self, rows: UnlabelledRows) -> Vector64:
        """Return u (n,) of images."""
        return self.scores(*self.similarities(rows))[0]

    def answers(self, label: Labels, rows: UnlabelledRows) -> Answers:
        """Return what is said of images that are of the classes ``label`` (n,) if they are not unknown."""
        u = self.unknownness(rows)
        return Answers(label, u > self.threshold, u)

    def confidence(self, rows: UnlabelledRows) -> Vector64:
        """Return 1 / (1 + exp(θ − u)), (n,): ½ at the threshold θ, as u counts standard deviations."""
        return np.asarray(1 / (1 + np.exp(self.threshold - self.unknownness(rows))))


def class_directions(means: Matrix64, source_means: Matrix64 | None = None) -> Matrix64:
    """Return the unit m_c − m̄ (K, d) of classes with ``means`` (K, d) of unit embeddings.

    m̄ is the mean of all the source's classes, ``source_means`` (C, d), by default ``means``. It never moves: neither a
    class that arrives later nor one that the source never had changes what earlier sums were made with. A single class
    has no other to be told from, and m̄ is 0.
    """
    known = means if source_means is None else source_means
    return unit_rows(means - known.mean(axis=0) if len(known) > 1 else means)


def rejector(state: RejectionState, directions: Matrix64) -> Rejector:
    """Return what scores images over the K classes of ``directions`` (K, d) after the images of a state."""
    K = len(directions)
    n, *sums = np.pad(state.moments, ((0, 0), (0, max(0, K - state.moments.shape[1]))))[:, :K]
    first, second = (np.stack(sums[i::2]) / np.maximum(n, 1.0) for i in (0, 1))
    return Rejector(
        centre=state.embedding[:-1] / max(state.embedding[-1], 1.0),
        directions=directions,
        mean=first,
        sd=np.maximum(np.sqrt(np.maximum(second - first**2, 0.0).mean(axis=1)), 1e-12),
        threshold=otsu_threshold(state.histogram),
    )


def empty_state(d: int) -> RejectionState:
    """Return the state before the first image of embeddings of ``d`` numbers."""
    return RejectionState(np.zeros(d + 1), np.zeros((5, 0)), np.zeros(len(EDGES) - 1))


def reject(
    state: RejectionState, rows: UnlabelledRows, directions: Matrix64
) -> tuple[RejectionState, npt.NDArray[np.bool_]]:
    """Return the state with a task's images, and whether u of each (n,) exceeds the threshold of all images so far.

    ``state`` is that of the earlier tasks. ``directions`` (K, d) are `class_directions` of all the source's classes,
    the same for every task; in a stream, then of those that the source never had.
    """
    added = empty_state(directions.shape[1])
    for index in row_blocks(len(rows), BLOCK_IMAGES):
        added.embedding[:-1] += unit_rows(rows.views["original"][index]).sum(axis=0)
    added.embedding[-1] = len(rows)
    s, k = rejector(state + added, directions).similarities(rows)
    sums = [x.sum(axis=0) for x in (np.ones_like(s), s, s**2, k, k**2)]
    added = replace(added, moments=np.stack(sums))
    u, v = rejector(state + added, directions).scores(s, k)
    inside = np.clip(np.concatenate([u, v]), EDGES[0], np.nextafter(EDGES[-1], 0))
    state += replace(added, histogram=np.histogram(inside, EDGES)[0].astype(np.float64))
    return state, u > otsu_threshold(state.histogram)


def otsu_threshold(histogram: Vector64) -> float:
    """Return the edge that parts a histogram over `EDGES` with the greatest variance between the parts.

    Of several the middle one (an empty stretch between two heaps); infinity if all is in one bin.
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
