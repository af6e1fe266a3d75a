"""Provide baselines that may answer `unknown`, for problems whose target has classes that the source lacks.

None of them adapts. Each gives every image a score u, which is larger the less the image resembles the classes seen so
far. An image is rejected if u exceeds Otsu's threshold on the train images of the tasks so far. The two baselines from
uniood (Deng and Jia, "Universal Domain Adaptation from Foundation Models: A Baseline Study", arXiv:2305.11092) reject
it if its entropy exceeds half of the maximum, ln K.

- ``mcm``: −max softmax of CLIP's cosines at temperature 1 (Ming et al., NeurIPS 2022).
- ``clip-entropy``: entropy at CLIP's own scale. ``clip-largest-cosine``: −max cosine (the maximum logit).
- ``clip-half-entropy``: uniood's CLIP zero-shot, entropy at CLIP's own scale against ½ ln K.
- ``clip-calibrated``: uniood's calibrated CLIP without its distillation, which needs gradients. Like the previous one,
  but at a temperature chosen on source images, see `calibrated_temperature`.
- ``source-max-softmax``, ``source-entropy``: −max softmax and entropy of the source model.
- ``nearest-mean-distance``: squared distance of the unit embedding to the nearest source mean.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from pipeline.comparison.compared_method import ComparedMethod, rejecting_method
from pipeline.comparison.labelled_tasks import VIEW
from pipeline.comparison.referee_variants import prediction, source_models
from pipeline.errors import InputError
from pipeline.method.continual_metrics import Answers, calibration_error
from pipeline.method.fusion import entropies
from pipeline.method.rows import Labels, Matrix64, UnlabelledRows, Vector64, as_array, unit_rows
from pipeline.method.variants import CALIBRATED
from pipeline.method.zero_shot import softmax
from pipeline.problem.seed import Seed

SOURCE_ALONE = replace(CALIBRATED, predictor="source")
# returns scores (n, K) of images after a task (counted from 0); the largest score decides the class
ScoreFunction = Callable[[Seed, UnlabelledRows, int], Matrix64]


def baseline(
    title: str, scores: ScoreFunction, u: Callable[[Matrix64], Vector64], *, half_entropy: bool = False
) -> ComparedMethod:
    """Return a method that rejects images for which ``u`` of their scores is too large."""

    def answers(seed: Seed) -> list[Answers]:
        by_task = []
        for t in range(len(seed.tasks)):
            p = scores(seed, seed.target.test, t)
            threshold = np.log(p.shape[1]) / 2
            if not half_entropy:
                threshold = otsu(np.concatenate([u(scores(seed, task, t)) for task in seed.target.tasks[: t + 1]]))
            by_task.append(Answers(p.argmax(axis=1), u(p) > threshold, u(p)))
        return by_task

    return rejecting_method(answers, title, "reference")


def otsu(values: Vector64) -> float:
    """Return the threshold that splits the values into two parts with the largest variance between them.

    Examples
    --------
    >>> float(otsu(np.array([0.0, 1.0, 8.0, 9.0])))
    4.5
    """
    v = np.sort(values)
    if len(v) < 2:
        return np.inf
    left, sums = np.arange(1, len(v)), np.cumsum(v)
    between = (sums[-1] * left / len(v) - sums[:-1]) ** 2 / (left * (len(v) - left))
    best = int(np.argmax(between))
    return float((v[best] + v[best + 1]) / 2)


def smallest(scores: Matrix64) -> Vector64:
    """Return −max of every row of ``scores`` (n, K)."""
    return np.asarray(-scores.max(axis=1))


def clip_cosines(seed: Seed, rows: UnlabelledRows, task: int) -> Matrix64:
    """Return CLIP's cosines (n, K) to the classes seen."""
    K = int(max(classes.max() for classes in seed.tasks[: task + 1])) + 1
    return as_array(rows.cosines)[:, :K].astype(np.float64)


def clip(seed: Seed, rows: UnlabelledRows, task: int, scale: float | None = None) -> Matrix64:
    """Return CLIP's probabilities (n, K), by default at its own scale."""
    return softmax((scale or seed.target.clip_scale) * clip_cosines(seed, rows, task))


def calibrated_clip(seed: Seed, rows: UnlabelledRows, task: int) -> Matrix64:
    """Return CLIP's probabilities (n, K) at a temperature chosen on source images of the classes seen."""
    k = clip_cosines(seed, rows, task)
    K = k.shape[1]

    def temperature() -> float:
        if seed.source.clip is None or seed.target.text is None:
            raise InputError("the source has no CLIP embeddings, which this method needs")
        index = np.flatnonzero(seed.source.labels < K)
        source_cosines = unit_rows(as_array(seed.source.clip)[index]) @ unit_rows(seed.target.text[:K]).T
        return calibrated_temperature(source_cosines, seed.source.labels[index], 1 / seed.target.clip_scale)

    return softmax(1 / seed.shared(("CLIP's temperature", K), temperature) * k)


def calibrated_temperature(k: Matrix64, labels: Labels, default: float) -> float:
    """Return the temperature at which CLIP is confident about known classes and unsure about all others.

    The first ⌊(K − 1) / 2⌋ of the K classes count as known, images of the others as unknown. The loss is the sum of the
    negative log likelihood and the calibration error of the known images, and the excess over chance of the mean
    confidence in the unknown ones. uniood minimises it by gradients, this function by a bounded scalar search.
    ``k`` (n, K) are CLIP's cosines of source images with ``labels`` (n,). Return ``default``, the model's own
    temperature, if fewer than two classes would be known or no image unknown.
    """
    half = (k.shape[1] - 1) // 2
    is_known = labels < half
    if half < 2 or is_known.all():
        return default

    def loss(log_temperature: float) -> float:
        p = softmax(k[:, :half] / np.exp(log_temperature))
        known, unknown = p[is_known], p[~is_known]
        right = known[np.arange(len(known)), labels[is_known]]
        error = calibration_error(known.max(axis=1), known.argmax(axis=1) == labels[is_known])
        return float(-np.log(np.maximum(right, 1e-300)).mean() + error + unknown.max(axis=1).mean() - 1 / half)

    import scipy.optimize  # takes 0.2 s; needed only for label spaces

    bounds = (np.log(default) - 3, np.log(default) + 5)
    found = scipy.optimize.minimize_scalar(loss, bounds=bounds, method="bounded")
    return float(np.exp(found.x))


def source_probabilities(seed: Seed, rows: UnlabelledRows, task: int) -> Matrix64:
    """Return the source model's probabilities (n, K)."""
    return prediction(seed, SOURCE_ALONE, rows, source_models(seed, SOURCE_ALONE)[task], None).fused


def negative_distances(seed: Seed, rows: UnlabelledRows, task: int) -> Matrix64:
    """Return −‖g − m‖² (n, K) between unit embeddings and source means."""
    means = source_models(seed, SOURCE_ALONE)[task].embedding_means
    g = unit_rows(as_array(rows.views[VIEW]))
    return np.asarray(2 * g @ means.T - (means**2).sum(axis=1) - (g**2).sum(axis=1)[:, None])


BASELINES = {
    "mcm": baseline("CLIP, maximum concept matching", partial(clip, scale=1.0), smallest),
    "clip-entropy": baseline("CLIP, entropy", clip, entropies),
    "clip-largest-cosine": baseline("CLIP, largest cosine", clip_cosines, smallest),
    "clip-half-entropy": baseline("CLIP zero-shot of uniood", clip, entropies, half_entropy=True),
    "clip-calibrated": baseline("CLIP calibrated of uniood", calibrated_clip, entropies, half_entropy=True),
    "source-max-softmax": baseline("source model, maximum softmax", source_probabilities, smallest),
    "source-entropy": baseline("source model, entropy", source_probabilities, entropies),
    "nearest-mean-distance": baseline("nearest source mean, distance", negative_distances, smallest),
}
