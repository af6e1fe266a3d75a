"""What the naive oracles share: unit rows, softmax and entropy."""

import math

import numpy as np


def unit(row):
    row = np.asarray(row, dtype=np.float64)
    return row / math.sqrt(sum(v * v for v in row))


def softmax(values):
    top = max(values)
    powers = [math.exp(v - top) for v in values]
    return [p / sum(powers) for p in powers]


def entropy(p):
    return -sum(v * math.log(v) for v in p if v > 0)
