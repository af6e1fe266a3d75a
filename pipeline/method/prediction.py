"""Both branches' probabilities and their fusion, for any classifier: when adapting and at test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError
from pipeline.method.class_statistics import Labels, Matrix64
from pipeline.method.fusion import branch_probabilities, fuse
from pipeline.method.kernel_lda import Classifier
from pipeline.method.nearest_mean import nearest_mean
from pipeline.method.random_fourier_features import Basis, deviation
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import Matrix, unit_rows

IMAGES = 2048  # scored at a time: bounds the memory, not the result


@dataclass(frozen=True, eq=False)
class Prediction:
    """Probabilities (n, K) over the classes seen: of both branches, and fused."""

    klda: Matrix64
    clip: Matrix64
    fused: Matrix64

    @property
    def label(self) -> npt.NDArray[np.intp]:
        """The predicted class (n,)."""
        return np.asarray(self.fused.argmax(axis=1))


def cosines(images: Matrix, texts: Matrix) -> Matrix64:
    """Return cos(v(x), t(c)), (n, M), of CLIP image (n, d) and text (M, d) embeddings."""
    return np.asarray(unit_rows(images) @ unit_rows(texts).T)


def klda_logits(
    basis: Basis, classifier: Classifier, x: Matrix, options: MethodOptions
) -> Matrix64:
    """Return the KLDA branch's logits (n, K), eq. (13), of embeddings (n, d), in blocks of rows."""
    factor = (2.0 if options.logits == "mahalanobis" else 1.0) / options.temperature
    scores = [
        classifier.scores(deviation(basis, x[start : start + IMAGES]))
        for start in range(0, len(x), IMAGES)
    ]
    K = len(classifier.b)
    return factor * np.vstack(scores) if scores else np.zeros((0, K))


def klda_probabilities(
    basis: Basis,
    classifier: Classifier,
    views: Mapping[str, Matrix],
    classes: Labels,
    *,
    options: MethodOptions,
    vote: bool,
) -> Matrix64:
    """Return p (n, |classes|): of the original, or the mean over the views if they vote."""
    voters = options.views if vote else options.views[:1]
    each = [
        branch_probabilities(klda_logits(basis, classifier, views[name], options), classes)
        for name in voters
    ]
    return np.asarray(np.mean(each, axis=0))


def predict(
    basis: Basis,
    views: Mapping[str, Matrix],
    cosine: Matrix64,
    *,
    source: SourceModel,
    classifier: Classifier | None,
    options: MethodOptions,
    clip_scale: float,
) -> Prediction:
    """Predict over all classes seen, given views (n, d), cosines (n, M) and the models after a task.

    classifier: the target's; the reference rows, which do not adapt, need none.
    """
    seen = np.arange(len(source.moments.means))
    scale = options.clip_logit_scale(clip_scale)
    over_all = options.clip_classes_at_test == "all"
    p_vlm = branch_probabilities(scale * cosine, seen, over_all=over_all)  # (1)
    if options.predictor == "clip":
        return Prediction(p_vlm, p_vlm, p_vlm)
    if options.predictor == "nearest_mean":
        one_hot = np.eye(len(seen))[nearest_mean(views["original"], source.embedding_means)]
        return Prediction(one_hot, p_vlm, one_hot)
    if options.predictor == "source":
        p = klda_probabilities(basis, source.classifier, views, seen, options=options, vote=False)
        return Prediction(p, p_vlm, p)
    if classifier is None:
        raise InputError("prediction: the adapted method needs the target's classifier")
    vote = options.vote_at_test
    p = klda_probabilities(basis, classifier, views, seen, options=options, vote=vote)
    return Prediction(p, p_vlm, fuse(p, p_vlm, options.fusion(at_test=True)))  # (14)
