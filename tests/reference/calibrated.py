"""Naive oracle of the variant `calibrated`, float64, from raw embeddings to predicted probabilities.

Everything uses z itself, without a pivot, one sample at a time, and all earlier rows are kept: pooled source scatter,
source views, prior count 5, CLIP in the kernel with λ = 0.5, three rounds with the ridge of the first labels, relative
ridges 0.3 and 0.1. For the first labels, the shift of the task's mean is subtracted, given class shares half-way
between equal ones and CLIP's. For all labels, the three views vote, fused with CLIP by the largest probabilities and
averaged with the five nearest neighbours (fewer in a small task). Entropy weights are at least 0.3, and an image enters
every class of its task by its share. For predictions, the three views vote without CLIP.
"""

import numpy as np

from reference.basics import fused, ratio, softmax, unit, weight, weighted_mean
from reference.kernel_lda import regularised, scores

CLIP_WEIGHT, PRIOR_COUNT, ROUNDS, RIDGE, SOURCE_RIDGE, NEIGHBOURS, LEAST_WEIGHT = 0.5, 5.0, 3, 0.3, 0.1, 5, 0.3


def joint_row(vision, clip):
    """Return the input [g/‖g‖ ; λ c/‖c‖] of the features (7)."""
    return np.concatenate([unit(vision), CLIP_WEIGHT * unit(clip)])


def scatter_about_class_means(rows, D):
    """Return the scatter of ``rows``, a list of (z, {class: weight}), about the means of their classes."""
    S = np.zeros((D, D))
    for c in {c for _, weights in rows for c in weights}:
        members = [(z, weights[c]) for z, weights in rows if c in weights]
        mean = weighted_mean(members)
        for z, w in members:
            S = S + w * np.outer(z - mean, z - mean)
    return S


def neighbours(i, vision, C):
    """Return the other images nearest to image i by cosine of the vision embeddings, in a task of C classes."""
    others = [j for j in range(len(vision)) if j != i]
    others.sort(key=lambda j: -float(unit(vision[i]) @ unit(vision[j])))
    return others[: min(NEIGHBOURS, len(vision) // (2 * C))]


def vote(views, i, means, A):
    """Return the mean over the views of softmax F of image i."""
    return np.mean([softmax(scores(view[i : i + 1], means, A)[0]) for view in views], axis=0).tolist()


class Source:
    """The source model after some tasks, given ``rows`` of all views as a list of (z, class)."""

    def __init__(self, rows, K):
        self.D = len(rows[0][0])
        self.rows = [(z, {c: 1.0}) for z, c in rows]
        self.means = [weighted_mean([(z, 1.0) for z, c in rows if c == k]) for k in range(K)]
        self.S, self.total = scatter_about_class_means(self.rows, self.D), float(len(rows))
        self.A = regularised(self.S / self.total, SOURCE_RIDGE)


def first_label(task, source, scale):
    """Return the result of `label` for the source, with the shift of the task's mean subtracted from the rows."""
    classes, views, cosines, vision = task
    p_vlm = [softmax([scale * cosine[c] for c in classes]) for cosine in cosines]
    share = [0.5 * sum(p[k] for p in p_vlm) / len(p_vlm) + 0.5 / len(classes) for k in range(len(classes))]
    expected = sum(s * source.means[c] for s, c in zip(share, classes, strict=True))
    shift = sum(z for view in views for z in view) / (len(views) * len(cosines)) - expected
    moved = [[z - shift for z in view] for view in views]
    return label((classes, moved, cosines, vision), source.means, source.A, scale)


def label(task, means, A, scale):
    """Return labels, weights and smoothed fused probabilities of a task (classes, views, cosines, vision rows)."""
    classes, views, cosines, vision = task
    n, task_means = len(cosines), [means[c] for c in classes]
    p_vlm = [softmax([scale * cosine[c] for c in classes]) for cosine in cosines]
    klda = [vote(views, i, task_means, A) for i in range(n)]
    mixed = [fused(p, q, ratio(p, q)) for p, q in zip(klda, p_vlm, strict=True)]
    smoothed = []
    for i in range(n):
        near = [mixed[j] for j in neighbours(i, vision, len(classes))]
        smoothed.append((0.5 * np.array(mixed[i]) + 0.5 * np.mean(near, axis=0)).tolist())
    labels = [classes[p.index(max(p))] for p in smoothed]
    return labels, [weight(p, LEAST_WEIGHT) for p in smoothed], smoothed


class Target:
    """All rows of the tasks so far, as (z, {class: weight})."""

    def __init__(self):
        self.rows = []

    def adapt(self, source, task, scale, threshold=0.0):
        """Return the final labels, weights and fused probabilities of a task, and the means and A after it.

        Images whose largest probability is below the threshold are left out in that round.
        """
        classes, views, _, _ = task
        labels, weights, fusions = first_label(task, source, scale)
        kappa = None
        for rounds_left in range(ROUNDS, -1, -1):
            shares = [
                dict(zip(classes, (w * v for v in p), strict=True)) for w, p in zip(weights, fusions, strict=True)
            ]
            kept = [i for i, p in enumerate(fusions) if max(p) >= threshold]
            rows = self.rows + [(view[i], shares[i]) for view in views for i in kept]
            means = []
            for k, source_mean in enumerate(source.means):
                members = [(z, share[k]) for z, share in rows if k in share]
                means.append(weighted_mean([*members, (source_mean, PRIOR_COUNT)]))
            S = source.S + scatter_about_class_means(rows, source.D)
            total = source.total + sum(w for _, share in rows for w in share.values())
            if kappa is None:
                kappa = RIDGE * np.trace(S) / source.D
            A = (S + kappa * np.eye(source.D)) / total
            if rounds_left:
                labels, weights, fusions = label(task, means, A, scale)
        self.rows = rows
        return labels, weights, fusions, (means, A)


def predict(model, views):
    """Return the probabilities over the classes seen."""
    means, A = model
    return np.array([vote(views, i, means, A) for i in range(len(views[0]))])
