"""Naive oracle of the variant `calibrated` as shipped, float64, from raw embeddings to fused probabilities.

Everything is on z itself, without a pivot, one sample at a time, and every earlier row is kept: source scatter pooled,
source views, prior count 5, CLIP in the kernel with λ = 0.5, three rounds with the ridge of the first labels, relative
ridges 0.3 and 0.1, fusion by largest probabilities, entropy weights, three views.
"""

import math

import numpy as np

SHARE, PRIOR_COUNT, ROUNDS, RIDGE, SOURCE_RIDGE = 0.5, 5.0, 3, 0.3, 0.1


def unit(row):
    row = np.asarray(row, dtype=np.float64)
    return row / math.sqrt(sum(v * v for v in row))


def feature(vision, clip, omega, beta):
    """z(x), eq. (7), of the joint row [g/‖g‖ ; λ c/‖c‖]; omega is (d + d', D)."""
    x = unit(np.concatenate([unit(vision), SHARE * unit(clip)]))
    D = len(beta)
    return np.array([math.sqrt(2 / D) * math.cos(x @ omega[:, j] + beta[j]) for j in range(D)])


def softmax(values):
    powers = [math.exp(v - max(values)) for v in values]
    return [p / sum(powers) for p in powers]


def fuse(p, q):
    alpha = max(p) / (max(p) + max(q))
    return [alpha * a + (1 - alpha) * b for a, b in zip(p, q, strict=True)]


def entropy_weight(p):
    return 1 - sum(-v * math.log(v) for v in p if v > 0) / math.log(len(p))


def weighted_mean(rows):
    """rows: list of (z, weight)."""
    return sum(w * z for z, w in rows) / sum(w for _, w in rows)


def scatter_about_class_means(rows, D):
    """rows: list of (z, class, weight)."""
    S = np.zeros((D, D))
    for c in {c for _, c, _ in rows}:
        members = [(z, w) for z, label, w in rows if label == c]
        mean = weighted_mean(members)
        for z, w in members:
            S = S + w * np.outer(z - mean, z - mean)
    return S


def discriminant(z, means, A):
    """F(x), eqs. (11)–(13)."""
    return [float(z @ np.linalg.solve(A, mu) - 0.5 * mu @ np.linalg.solve(A, mu)) for mu in means]


class Source:
    """The source model after some tasks. rows: list of (z, class), all views."""

    def __init__(self, rows, K):
        self.D = len(rows[0][0])
        self.rows = [(z, c, 1.0) for z, c in rows]
        self.means = [weighted_mean([(z, 1.0) for z, c in rows if c == k]) for k in range(K)]
        self.S, self.total = scatter_about_class_means(self.rows, self.D), float(len(rows))
        A = self.S / self.total
        self.A = A + SOURCE_RIDGE * np.trace(A) / self.D * np.eye(self.D)


def label(task, means, A, scale):
    """Labels, weights and fused probabilities of a task from its original view."""
    classes, views, cosines = task
    labels, weights, fusions = [], [], []
    for z, cosine in zip(views[0], cosines, strict=True):
        F = discriminant(z, [means[c] for c in classes], A)
        fused = fuse(softmax(F), softmax([scale * cosine[c] for c in classes]))
        labels.append(classes[fused.index(max(fused))])
        weights.append(entropy_weight(fused))
        fusions.append(fused)
    return labels, weights, fusions


class Target:
    """All rows of the tasks so far, as (z, class, weight)."""

    def __init__(self):
        self.rows = []

    def adapt(self, source, task, scale):
        """Return the final labels, weights and fused probabilities of a task, and the means and A after it."""
        _, views, _ = task
        labels, weights, fusions = label(task, source.means, source.A, scale)
        kappa = None
        for left in range(ROUNDS, -1, -1):
            rows = self.rows + [
                (z, c, w) for view in views for z, c, w in zip(view, labels, weights, strict=True)
            ]
            means = []
            for k, source_mean in enumerate(source.means):
                members = [(z, w) for z, c, w in rows if c == k]
                means.append(weighted_mean([*members, (source_mean, PRIOR_COUNT)]))
            S = source.S + scatter_about_class_means(rows, source.D)
            total = source.total + sum(w for _, _, w in rows)
            if kappa is None:
                kappa = RIDGE * np.trace(S) / source.D
            A = (S + kappa * np.eye(source.D)) / total
            if left:
                labels, weights, fusions = label(task, means, A, scale)
        self.rows = rows
        return labels, weights, fusions, (means, A)


def predict(model, rows, cosines, scale):
    """Fused probabilities over the classes seen."""
    means, A = model
    result = []
    for z, cosine in zip(rows, cosines, strict=True):
        q = softmax([scale * v for v in cosine[: len(means)]])
        result.append(fuse(softmax(discriminant(z, means, A)), q))
    return np.array(result)
