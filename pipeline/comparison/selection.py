"""Choose a value of D, sigma or an option of the method without target labels.

`label_free_scores` scores each value from the data that a user without target labels has: the unlabelled train images
of the target and labelled source images. A larger score is better. The quality of the choice is measured afterwards,
with labels (docs/evidence.md): the regret is the advantage of the best value over the chosen one, and the rank
correlation says whether a score orders the values as accuracy does.
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
from pipeline.method.rows import BLOCK_IMAGES, Matrix64, reduce_locally, row_blocks, take
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import softmax
from pipeline.problem.seed import Seed

SCORES = ("neighbourhood_density", "information", "certainty", "branches_agree", "views_agree", "source_likelihood")
HELD_OUT = 5  # every fifth source image
TEMPERATURE = 0.05  # the authors' temperature for `neighbourhood_density`


def label_free_scores(seed: Seed, options: MethodOptions, classifier: Classifier) -> dict[str, float]:
    """Return the `SCORES` of the target's classifier after the last task; larger is better."""
    referee, source = referee_of(seed, options), source_models(seed, options)[-1]
    all_classes, predictions, by_view = classifier.for_classes(np.arange(len(source.means))), [], []
    for task in seed.target.tasks:
        predictions.append(prediction(seed, options, task, source, classifier))
        scores = klda_scores(referee.features(task), all_classes, options.views, reduce_locally)
        by_view.append(softmax(logit_factor(options) * scores))
    # probabilities (n, C) of all train images by the method, by CLIP and by each view, the original first
    fused = np.concatenate([predicted.fused for predicted in predictions])
    clip = np.concatenate([predicted.clip for predicted in predictions])
    klda = list(np.concatenate(by_view, axis=1))
    values = {
        "neighbourhood_density": neighbourhood_density(fused),
        "information": information(fused),
        "certainty": certainty(fused),
        "branches_agree": agreement([klda[0], clip]),
        "views_agree": agreement(klda) if len(klda) > 1 else np.nan,
        "source_likelihood": source_likelihood(seed, options),
    }
    return {name: float(values[name]) for name in SCORES}


def source_likelihood(seed: Seed, options: MethodOptions) -> float:
    """Return the mean log probability of every fifth source image under the source model fitted to the others."""
    basis, source = kernel_basis(seed, options), seed.source
    held_out = np.arange(len(source.labels)) % HELD_OUT == 0

    def fit_others() -> tuple[SourceModel, KernelRows]:
        (model,) = fit(seed, options, held_out=held_out, last_only=True)
        index = np.flatnonzero(held_out)
        rows = {"original": take(source.views["original"], index)}
        clip = None if source.clip is None else take(source.clip, index)
        return model, joined_rows(basis, rows, clip, options.clip_in_kernel)

    model, features = seed.shared(("held-out source", source_options(options), basis.width), fit_others)
    p = klda_probabilities(features, model.classifier, np.arange(len(model.means)), options, vote=False)
    return log_likelihood(p, source.labels[held_out])


def neighbourhood_density(p: Matrix64) -> float:
    """Return the soft neighbourhood density of predictions (Saito et al., ICCV 2021).

    Each image has a distribution over the other images, a softmax of the cosines between their probabilities divided by
    a temperature. The score is the mean entropy of these distributions. It is large if images form tight groups in
    which every image has many near neighbours. ``p`` (n, C) are the probabilities of at least two images.
    """
    unit = p / np.linalg.norm(p, axis=1, keepdims=True)
    total = 0.0
    for index in row_blocks(len(unit), BLOCK_IMAGES):
        logits = unit[index] @ unit.T / TEMPERATURE
        logits[np.arange(len(index)), index] = -1e4  # exp of this is 0: an image is not its own neighbour
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
    """Return the mean agreement of several predictors: Σ_c of their pairwise products, averaged over pairs and images.

    This is the probability that two different predictors (the two branches, or the views of an image), each drawing a
    class by its probabilities, draw the same class.
    """
    count = len(predictions)
    total = np.sum(predictions, axis=0)
    squares = sum(np.einsum("nc,nc->n", p, p) for p in predictions)
    return float(np.mean(np.einsum("nc,nc->n", total, total) - squares) / (count * (count - 1)))


@dataclass(frozen=True)
class Choice:
    """The value of a setting that a score chooses, and how good it is."""

    score: str
    chosen: object  # value with the largest score
    best: object  # value with the largest A_T
    regret: float  # A_T of the best value minus A_T of the chosen one
    rank_correlation: float  # Spearman's, of score and A_T over the values; NaN if A_T is constant


def choices(accuracy: Mapping[object, float], scores: Mapping[object, Mapping[str, float]]) -> list[Choice]:
    """Return the choice of each score, given the label-free scores and, for comparison only, the A_T of each value.

    Omit scores that are missing for some value or equal for all values.

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
