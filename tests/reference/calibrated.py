"""Naive METHOD.md, column `calibrated`: one task after another, on z itself, float64.

Options that matter are arguments; rounds label a task again with the target model of all rows so far.
"""

import numpy as np

from reference.class_statistics import covariance, means
from reference.fusion import fused, ratio, weight
from reference.kernel_lda import regularised, scores
from reference.zero_shot import softmax


def source_model(rows, labels, classes, ridge):
    ones = [1.0] * len(rows)
    mu = means(rows, labels, ones, classes)
    A = covariance(rows, labels, ones, classes)
    return mu, regularised(A, ridge)


def label(rows, mu, A, cosines, classes, scale):
    labels, weights, fusions = [], [], []
    for F, cosine in zip(scores(rows, mu, A), cosines, strict=True):
        p = softmax([F[c] for c in classes])
        q = softmax([scale * cosine[c] for c in classes])
        mixed = fused(p, q, ratio(p, q))
        labels.append(classes[mixed.index(max(mixed))])
        weights.append(weight(mixed))
        fusions.append(mixed)
    return labels, weights, fusions


def adapt(sources, tasks, *, ridge, scale, rounds):
    """sources: (mu, regularised A) after each task; tasks: (classes, views, cosines).

    Returns per task the final labels, weights and fused probabilities, and the target (mu, A).
    """
    kept_rows, kept_labels, kept_weights = [], [], []
    results = []
    for (mu, A), (classes, views, cosines) in zip(sources, tasks, strict=True):
        labels, weights, fusions = label(views[0], mu, A, cosines, classes, scale)
        kappa = None
        for left in range(rounds, -1, -1):
            rows = kept_rows + [z for view in views for z in view]
            all_labels = kept_labels + labels * len(views)
            all_weights = kept_weights + weights * len(views)
            K = max(classes) + 1
            cov, total = covariance(rows, all_labels, all_weights, K), sum(all_weights)
            if (
                kappa is None
            ):  # the ridge of a task, in units of the scatter, is that of its first labels
                kappa = ridge * total * np.trace(cov) / len(cov)
            target = (
                means(rows, all_labels, all_weights, K),
                cov + kappa / total * np.eye(len(cov)),
            )
            if left:
                labels, weights, fusions = label(views[0], *target, cosines, classes, scale)
        kept_rows, kept_labels, kept_weights = rows, all_labels, all_weights
        results.append((labels, weights, fusions, target))
    return results


def predict(target, rows, cosines, scale):
    K = len(target[0])
    result = []
    for F, cosine in zip(scores(rows, *target), cosines, strict=True):
        p, q = softmax(list(F)), softmax([scale * v for v in cosine[:K]])
        result.append(fused(p, q, ratio(p, q)))
    return np.array(result)
