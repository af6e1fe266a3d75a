"""A target's tasks as adapting sees them: without the images that are rejected, with the classes that are there.

Images of none of the candidate classes are rejected before they enter the statistics (docs/method.md):

    s_c(x) = cos(g − ḡ, m_c − m̄)          k_c(x) = cos(CLIP's embeddings of x and of class c)
    u(x) = −max_c (s_c − mean s_c) / sd(s) − max_c (k_c − mean k_c) / sd(k)

g is the unit vision embedding of the image, ḡ the mean over the target's images, m_c the source's mean of class c, m̄
the mean of those means: what shifts all images alike cancels. Means are over the target's images, one standard
deviation is taken for all classes. v(x) is u(x) with the second largest in place of the largest: what u would be if the
image's class were none of the candidates. An image is unknown if u exceeds Otsu's threshold, which parts a histogram
of all u and v in two with the greatest variance between the parts; where all images are known, it parts the u from the
v and rejects few. No label, kernel or classifier is needed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pipeline.method.adaptation import Referee, pseudo_label
from pipeline.method.continual_metrics import Answers
from pipeline.method.rows import (
    BLOCK_IMAGES,
    Index,
    Labels,
    Matrix64,
    TargetTask,
    UnlabelledRows,
    Vector64,
    row_blocks,
    unit_rows,
)
from pipeline.method.source_model import SourceModel

# A class with less than this part of an equal share is taken to be absent; chosen on Office-Caltech10 and PACS.
LEAST_SHARE = 0.1
ITERATIONS = 50
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


def present_classes(p: Matrix64) -> Index:
    """Return the columns, ascending, of the classes that a task holds, of its p̂ (n, c) over the candidates.

    The shares π of the classes are the fixed point of

        r_ic = π_c p̂_ic / Σ_j π_j p̂_ij          π_c = mean_i r_ic

    (Saerens, Latinne and Decaestecker 2002, with equal shares where p̂ comes from). The class of the least share is
    left out while that share is below `LEAST_SHARE` of an equal one. The rest are the task's classes, as if they had
    been given: one that is left out draws no rows to itself and keeps the source's statistics. All are there if n is 0.

    Examples
    --------
    >>> present_classes(np.array([[0.8, 0.2, 0.0], [0.1, 0.9, 0.0]]))
    array([0, 1])
    """
    alive = np.arange(p.shape[1])
    while len(p) and len(alive) > 1:
        share = np.full(len(alive), 1 / len(alive))
        for _ in range(ITERATIONS):
            r = share * p[:, alive]
            share = (r / np.maximum(r.sum(axis=1, keepdims=True), 1e-300)).mean(axis=0)
        if share.min() >= LEAST_SHARE / len(alive):
            break
        alive = np.delete(alive, share.argmin())
    return alive


@dataclass(frozen=True, eq=False)
class PreparedTask:
    """A task of a target."""

    images: TargetTask  # that are not rejected, and the classes that they may have
    accepted: Index  # (n,) which of the task's images these are
    source: SourceModel  # after the task
    rejection: RejectionState | None  # after the task; None if nothing is rejected


def prepared_tasks(
    referee: Referee,
    tasks: Iterable[TargetTask],
    sources: Iterable[SourceModel],
    *,
    directions: Matrix64 | None = None,
    estimate_classes: bool = False,
) -> Iterator[PreparedTask]:
    """Yield the tasks in order, given the source model after each; with the source's `directions`, images are rejected.

    With ``estimate_classes`` a task's classes are candidates, and those that its images are of are `present_classes`. p̂
    is that of the first labels without alignment, which would have to know the shares of the classes.
    """
    unaligned = replace(referee, options=replace(referee.options, align_means=False))
    state = None if directions is None else empty_state(directions.shape[1])
    for images, source in zip(tasks, sources, strict=True):
        task, accepted = images, np.arange(len(images))
        if state is not None and directions is not None:
            state, unknown = reject(state, task, directions)
            accepted = np.flatnonzero(~unknown)
            task = task.take(accepted)
        if estimate_classes:
            first = pseudo_label(unaligned, task, source)
            task = replace(task, classes=task.classes[present_classes(first.fused)])
        yield PreparedTask(task, accepted, source, state)
