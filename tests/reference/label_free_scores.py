"""Naive oracles of the label-free scores, from their definitions."""

import math

from reference.basics import entropy


def neighbourhood_density(p, temperature=0.05):
    n, total = len(p), 0.0
    for i in range(n):
        similar = []
        for j in range(n):
            if j != i:
                dot = sum(a * b for a, b in zip(p[i], p[j], strict=True))
                norms = math.hypot(*p[i]) * math.hypot(*p[j])
                similar.append(math.exp(dot / norms / temperature))
        total += entropy([s / sum(similar) for s in similar])
    return total / n


def information(p):
    n, C = len(p), len(p[0])
    mean = [sum(row[c] for row in p) / n for c in range(C)]
    return entropy(mean) - sum(map(entropy, p)) / n


def agreement(predictions):
    total, pairs = 0.0, 0
    for a, first in enumerate(predictions):
        for b, second in enumerate(predictions):
            if a != b:
                pairs += 1
                for p, q in zip(first, second, strict=True):
                    total += sum(x * y for x, y in zip(p, q, strict=True)) / len(first)
    return total / pairs
