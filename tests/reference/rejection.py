"""Naive oracles of rejection, present classes and metrics of label spaces, image by image."""

import math
from itertools import pairwise

from reference.basics import between_variance, unit


def dot(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def scores_of_task(images, cosines, means):
    """Return u and v (n,) of the images of a single task."""
    n, K, d = len(images), len(means), len(means[0])
    g = [unit(x) for x in images]
    g_mean = [sum(x[i] for x in g) / n for i in range(d)]
    m_mean = [sum(m[i] for m in means) / K for i in range(d)]
    directions = [unit([m[i] - m_mean[i] for i in range(d)]) for m in means]
    s = [[dot(unit([x[i] - g_mean[i] for i in range(d)]), w) for w in directions] for x in g]
    u, v = [0.0] * n, [0.0] * n
    for table in (s, cosines):
        mean = [sum(row[c] for row in table) / n for c in range(K)]
        variance = sum((row[c] - mean[c]) ** 2 for row in table for c in range(K)) / (n * K)
        for i in range(n):
            ranked = sorted((table[i][c] - mean[c]) / math.sqrt(variance) for c in range(K))
            u[i] -= ranked[-1]
            v[i] -= ranked[-2]
    return u, v


def histogram(values, edges):
    """Return the number of values in each bin; a bin excludes its upper edge."""
    return [sum(low <= v < high for v in values) for low, high in pairwise(edges)]


def threshold(values, edges):
    """Return the edge that splits the binned values best, or the middle of several."""
    centres = [(low + high) / 2 for low, high in pairwise(edges)]
    counts = histogram(values, edges)
    binned = [c for c, n in zip(centres, counts, strict=True) for _ in range(n)]
    parts = {edge: ([v for v in binned if v <= edge], [v for v in binned if v > edge]) for edge in edges[1:-1]}
    variance = {edge: between_variance(*both) if all(both) else 0.0 for edge, both in parts.items()}
    best = [e for e, v in variance.items() if v >= max(variance.values()) * (1 - 1e-9)]
    return (best[0] + best[-1]) / 2


def present(p, least, iterations):
    """Return the present classes, given probabilities (n, c): EM over the shares, removing the rarest class."""
    present_classes = list(range(len(p[0])))
    while len(present_classes) > 1:
        share = dict.fromkeys(present_classes, 1 / len(present_classes))
        for _ in range(iterations):
            new = dict.fromkeys(present_classes, 0.0)
            for row in p:
                total = sum(share[c] * row[c] for c in present_classes)
                for c in present_classes:
                    new[c] += share[c] * row[c] / total / len(p)
            share = new
        rarest = min(present_classes, key=lambda c: share[c])
        if share[rarest] >= least / len(present_classes):
            break
        present_classes.remove(rarest)
    return present_classes


def measures(labels, predicted, rejected, u):
    """Return accuracy on shared classes, on unknown images (label -1), H-score and AUROC."""
    images = list(zip(labels, predicted, rejected, strict=True))
    right = [[p == c and not r for y, p, r in images if y == c] for c in sorted(set(labels) - {-1})]
    shared = sum(sum(members) / len(members) for members in right) / len(right)
    of_unknown = [r for y, _, r in images if y == -1]
    unknown = sum(of_unknown) / len(of_unknown)
    h = 2 / (1 / shared + 1 / unknown) if shared and unknown else 0.0
    return shared, unknown, h, auroc(u, [y == -1 for y in labels])


def auroc(u, unknown):
    """Return the fraction of pairs in which the unknown image has the greater u; ties count half."""
    pairs = [
        (u[i] > u[j]) + 0.5 * (u[i] == u[j])
        for i in range(len(u))
        for j in range(len(u))
        if unknown[i] and not unknown[j]
    ]
    return sum(pairs) / len(pairs)
