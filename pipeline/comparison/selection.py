"""Choosing a value of D, sigma or an option of the method without a label of the target.

Each value is scored by `label_free_scores` from what a user without labels has: the unlabelled train images of the
target, and labelled source images; a larger score is better. How good the choice was is measured afterwards, with
labels (docs/evidence.md): the regret is what the best value has over the chosen one, the rank correlation says whether
a score orders the values as accuracy does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.comparison.referee_variants import (
    fit,
    kernel_basis,
    prediction,
    referee_of,
    source_models,
    source_options,
)
from pipeline.method.continual_metrics import log_likelihood
from pipeline.method.fusion import entropies
from pipeline.method.kernel_lda import Classifier
from pipeline.method.kernel_rows import KernelRows, joined_rows
from pipeline.method.prediction import klda_probabilities, klda_scores, logit_factor
from pipeline.method.rows import BLOCK_IMAGES, Matrix64, reduce_here, row_blocks, take
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import softmax
from pipeline.problem.seed import Seed

SCORES = ("neighbourhood_density", "information", "certainty", "branches_agree", "views_agree", "source_likelihood")
HELD_OUT = 5  # every fifth source image
TEMPERATURE = 0.05  # of `neighbourhood_density`, the value of its authors


def label_free_scores(seed: Seed, options: MethodOptions, classifier: Classifier) -> dict[str, float]:
    """Return every score of `SCORES`, larger is better, given the target's classifier after the last task."""
    referee, source = referee_of(seed, options), source_models(seed, options)[-1]
    of_all, predictions, by_view = classifier.of(np.arange(len(source.means))), [], []
    for task in seed.target.tasks:
        predictions.append(prediction(seed, options, task, source, classifier))
        scores = klda_scores(referee.features(task), of_all, options.views, reduce_here)
        by_view.append(softmax(logit_factor(options) * scores))
    # probabilities (n, C) of all train images: of the method, CLIP's and of each view, the original first
    fused, clip = np.concatenate([one.fused for one in predictions]), np.concatenate([one.clip for one in predictions])
    klda = list(np.concatenate(by_view, axis=1))
    found = {
        "neighbourhood_density": neighbourhood_density(fused),
        "information": information(fused),
        "certainty": certainty(fused),
        "branches_agree": agreement([klda[0], clip]),
        "views_agree": agreement(klda) if len(klda) > 1 else np.nan,
        "source_likelihood": source_likelihood(seed, options),
    }
    return {name: float(found[name]) for name in SCORES}


def source_likelihood(seed: Seed, options: MethodOptions) -> float:
    """Return the mean log probability of every fifth source image under the source model of the others."""
    basis, source = kernel_basis(seed, options), seed.source
    out = np.arange(len(source.labels)) % HELD_OUT == 0

    def fit_others() -> tuple[SourceModel, KernelRows]:
        (model,) = fit(seed, options, without=out, last_only=True)
        outside = np.flatnonzero(out)
        rows = {"original": take(source.views["original"], outside)}
        clip = None if source.clip is None else take(source.clip, outside)
        return model, joined_rows(basis, rows, clip, options.clip_in_kernel)

    model, features = seed.shared(("held-out source", source_options(options), basis.width), fit_others)
    p = klda_probabilities(features, model.classifier, np.arange(len(model.means)), options, vote=False)
    return log_likelihood(p, source.labels[out])


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
    """Return the mutual information between image and prediction.

    It is high if each prediction is certain and all classes occur equally often: H(mean of p) − mean of H(p), with p
    (n, C). Others use it to choose and to train models ("information maximisation").
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


@dataclass(frozen=True)
class Choice:
    """What a score chooses among the values of one setting, and how good that was."""

    score: str
    chosen: object  # the value of the largest score
    best: object  # the value that target labels would have chosen
    regret: float  # A_T of the best value less that of the chosen one
    rank_correlation: float  # Spearman's, of score and A_T over the values; NaN where A_T is constant


def choices(accuracy: Mapping[object, float], scores: Mapping[object, Mapping[str, float]]) -> list[Choice]:
    """Return what each score chooses, given A_T (which takes labels: for comparison only) and the scores of each value.

    A score that some value does not have, or that is equal for all, chooses nothing.

    Examples
    --------
    >>> found = choices({1: 0.5, 2: 0.9, 3: 0.8}, {1: {"s": 0.0}, 2: {"s": 1.0}, 3: {"s": 2.0}})
    >>> found[0].chosen, found[0].best, round(found[0].regret, 2), round(found[0].rank_correlation, 2)
    (3, 2, 0.1, 0.5)
    """
    values = list(accuracy)
    best = max(values, key=lambda value: accuracy[value])
    found = []
    for name in next(iter(scores.values())):
        column = [scores[value].get(name, np.nan) for value in values]
        if not np.isfinite(column).all() or len(set(column)) < 2:
            continue
        chosen = values[int(np.argmax(column))]
        correlation = np.nan
        if len(set(accuracy.values())) > 1:
            from scipy.stats import spearmanr  # takes a second to import

            correlation = float(spearmanr(column, [accuracy[value] for value in values]).statistic)
        found.append(Choice(name, chosen, best, accuracy[best] - accuracy[chosen], correlation))
    return found
