"""Naive oracle of mutual attention: one query, one key, one coordinate at a time."""

import math


def attend(queries, keys):
    """Return softmax(q kᵀ / √d) k for queries (L, d) and keys (M, d) as nested lists."""
    d = len(queries[0])
    result = []
    for query in queries:
        products = [sum(a * b for a, b in zip(query, key, strict=True)) for key in keys]
        weights = [math.exp(value / math.sqrt(d)) for value in products]
        total = sum(weights)
        result.append(
            [sum(weight / total * key[i] for weight, key in zip(weights, keys, strict=True)) for i in range(d)]
        )
    return result


def mutual(original, view):
    pairs = zip(attend(original, view), attend(view, original), strict=True)
    return [[(a + b) / 2 for a, b in zip(first, second, strict=True)] for first, second in pairs]
