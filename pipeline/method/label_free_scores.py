"""Scores of a model that need no label: which value of D, sigma or an option to take without looking at target labels.

Every score is computed from probabilities of unlabelled target images (or of labelled source images that were held
out), and a larger score is better. How well each of them chooses is measured by the stage `select`, docs/evidence.md.
"""

from collections.abc import Sequence

import numpy as np

from pipeline.method.fusion import entropies
from pipeline.method.rows import BLOCK_IMAGES, Labels, Matrix64, row_blocks

TEMPERATURE = 0.05  # of `neighbourhood_density`, the value of its authors


def neighbourhood_density(p: Matrix64) -> float:
    """Return the soft neighbourhood density of predictions (Saito et al., ICCV 2021).

    Each image has a distribution over the other images, a softmax of the cosines between their probabilities divided by
    a temperature; the score is the mean entropy of these distributions. It is large where the images lie in tight
    groups, each image with many near neighbours. ``p`` (n, C) are the probabilities of at least two images.
    """
    unit = p / np.linalg.norm(p, axis=1, keepdims=True)
    total = 0.0
    for index in row_blocks(len(unit), BLOCK_IMAGES):
        logits = unit[index] @ unit.T / TEMPERATURE
        logits[np.arange(len(index)), index] = -1e4  # an image is not its own neighbour: exp of it is 0
        logits -= logits.max(axis=1, keepdims=True)
        weights = np.exp(logits)
        sums = weights.sum(axis=1)
        # −Σ w/s log(w/s) = log s − Σ w log w / s
        total += float((np.log(sums) - np.einsum("nm,nm->n", weights, logits) / sums).sum())
    return total / len(unit)


def information(p: Matrix64) -> float:
    """Return the mutual information between image and prediction: sure of each image, and of many classes.

    H(mean of p) − mean of H(p), with p (n, C); used to choose and to train models by information maximisation. It
    prefers balanced predictions.
    """
    return float(entropies(p.mean(axis=0, keepdims=True))[0] - entropies(p).mean())


def certainty(p: Matrix64) -> float:
    """Return minus the mean entropy of predictions p (n, C)."""
    return float(-entropies(p).mean()) + 0.0


def agreement(predictions: Sequence[Matrix64]) -> float:
    """Return how far several predictors agree: the mean over images of Σ_c of their pairwise products of probabilities.

    That is the probability that two different predictors (the two branches, or the views of an image), each drawing a
    class by its probabilities, draw the same one.
    """
    count = len(predictions)
    total = np.sum(predictions, axis=0)
    own = sum(np.einsum("nc,nc->n", p, p) for p in predictions)
    return float(np.mean(np.einsum("nc,nc->n", total, total) - own) / (count * (count - 1)))


def log_likelihood(p: Matrix64, labels: Labels) -> float:
    """Return the mean log probability of the true classes ``labels`` (n,) of source images that were held out."""
    return float(np.log(np.maximum(p[np.arange(len(p)), labels], 1e-12)).mean())
