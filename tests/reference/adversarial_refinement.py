"""Naive oracle of adversarial refinement: the loss from z itself, gradients by central differences."""

import math

import numpy as np

from reference.random_fourier_features import feature


def loss(pixels, projection, *, omega, beta, W, b, label):
    """Return −log p_label of an image with ``pixels`` (P,), whose embedding is ``projection`` (d, P) times its pixels.

    The basis is omega (d, D) and beta (D,); W (D, C) and b (C,) score z(x) − z(0).
    """
    pivot = math.sqrt(2 / len(beta)) * np.cos(beta)
    scores = (feature(projection @ pixels, omega, beta) - pivot) @ W + b
    return math.log(sum(math.exp(score - scores[label]) for score in scores))


def gradient(function, pixels, step=1e-5):
    slopes = []
    for i in range(len(pixels)):
        up, down = list(pixels), list(pixels)
        up[i] += step
        down[i] -= step
        slopes.append((function(up) - function(down)) / (2 * step))
    return slopes


def ascend(function, pixels, steps, step_size, radius):
    """Return the pixels after sign steps, each clipped to its radius and to [0, 1]."""
    current = list(pixels)
    for _ in range(steps):
        slopes = gradient(function, current)
        for i, slope in enumerate(slopes):
            moved = current[i] + step_size * ((slope > 0) - (slope < 0))
            current[i] = min(max(moved, pixels[i] - radius, 0.0), pixels[i] + radius, 1.0)
    return current
