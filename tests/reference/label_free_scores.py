"""Naive oracles of the label-free scores, following their definitions."""

import itertools
import math

from reference.basics import entropy, unit


def neighbourhood_density(p, temperature=0.05):
    n, total = len(p), 0.0
    for i in range(n):
        similar = [math.exp(unit(p[i]) @ unit(p[j]) / temperature) for j in range(n) if j != i]
        total += entropy([s / sum(similar) for s in similar])
    return total / n


def information(p):
    n, C = len(p), len(p[0])
    mean = [sum(row[c] for row in p) / n for c in range(C)]
    return entropy(mean) - sum(map(entropy, p)) / n


def agreement(predictions):
    pairs = itertools.permutations(predictions, 2)
    products = [[p @ q for p, q in zip(first, second, strict=True)] for first, second in pairs]
    return sum(sum(row) / len(row) for row in products) / len(products)
