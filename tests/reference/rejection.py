"""Naive oracles of rejection, of the shares of classes, and of the measures of label spaces: one image at a time."""

import math


def unit(x):
    norm = math.sqrt(sum(v * v for v in x))
    return [v / norm for v in x]


def dot(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def fit_of_task(images, cosines, means):
    """Return t (n, K) of the images of a single task."""
    n, K, d = len(images), len(means), len(means[0])
    g = [unit(x) for x in images]
    g_mean = [sum(x[i] for x in g) / n for i in range(d)]
    m_mean = [sum(m[i] for m in means) / K for i in range(d)]
    directions = [unit([m[i] - m_mean[i] for i in range(d)]) for m in means]
    s = [[dot(unit([x[i] - g_mean[i] for i in range(d)]), w) for w in directions] for x in g]
    total = [[0.0] * K for _ in range(n)]
    for table in (s, cosines):
        mean = [sum(row[c] for row in table) / n for c in range(K)]
        variance = sum((row[c] - mean[c]) ** 2 for row in table for c in range(K)) / (n * K)
        for i in range(n):
            for c in range(K):
                total[i][c] += (table[i][c] - mean[c]) / math.sqrt(variance)
    return total


def between_variance(values, threshold):
    """Return the variance between the values up to the threshold and those above it."""
    parts = [v for v in values if v <= threshold], [v for v in values if v > threshold]
    if not all(parts):
        return 0.0
    a, b = (sum(part) / len(part) for part in parts)
    return len(parts[0]) * len(parts[1]) / len(values) ** 2 * (a - b) ** 2


def auroc(u, unknown):
    """Return the share of pairs in which the unknown image has the greater u, ties half."""
    pairs = [
        (u[i] > u[j]) + 0.5 * (u[i] == u[j])
        for i in range(len(u))
        for j in range(len(u))
        if unknown[i] and not unknown[j]
    ]
    return sum(pairs) / len(pairs)
