"""Predict with the KLDA branch, with both branches fused, or with a reference that does not adapt."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError
from pipeline.method.fusion import fuse
from pipeline.method.kernel_lda import Classifier
from pipeline.method.kernel_rows import KernelRows, row_deviations
from pipeline.method.random_fourier_features import Basis
from pipeline.method.rows import (
    BLOCK_IMAGES,
    Labels,
    Matrix64,
    RowReduction,
    Rows,
    Vector64,
    ViewRows,
    concatenate,
    reduce_locally,
    row_blocks,
)
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import clip_probabilities, nearest_mean, softmax


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predicted probabilities of n images over the K classes seen."""

    klda: Matrix64  # (n, K) of the kernel LDA branch, eq. (13)
    clip: Matrix64  # (n, K) of the CLIP branch, eq. (1)
    fused: Matrix64  # (n, K) of both, eq. (14)
    # (n,) confidence that an image is of an unknown class, above ½ if it is rejected; None without rejection
    unknown: Vector64 | None = None

    @property
    def label(self) -> npt.NDArray[np.intp]:
        """Predicted classes (n,)."""
        return np.asarray(self.fused.argmax(axis=1))

    @property
    def rejected(self) -> npt.NDArray[np.bool_]:
        """Whether each image (n,) is predicted to be `unknown`."""
        if self.unknown is None:
            return np.zeros(len(self.fused), dtype=np.bool_)
        return np.asarray(self.unknown > 1 / 2)


def logit_factor(options: MethodOptions) -> float:
    """Return the factor of the scores of eq. (13) in the softmax: 2 for Mahalanobis logits, otherwise 1."""
    return 2.0 if options.logits == "mahalanobis" else 1.0


def klda_probabilities(
    features: KernelRows,
    classifier: Classifier,
    classes: Labels,
    options: MethodOptions,
    *,
    vote: bool,
    reduce_rows: RowReduction = reduce_locally,
) -> Matrix64:
    """Return p = softmax(F) over ``classes`` (c,), (n, c), eq. (13), averaged over the views if ``vote`` is set."""
    views = options.views if vote else options.views[:1]
    return voted(klda_scores(features, classifier.for_classes(classes), views, reduce_rows), options)


def voted(scores: Matrix64, options: MethodOptions) -> Matrix64:
    """Return the mean over the views, (n, c), of softmax F, given scores F (V, n, c)."""
    return np.asarray(softmax(logit_factor(options) * scores).mean(axis=0))


def klda_scores(
    features: KernelRows, classifier: Classifier, views: Sequence[str], reduce_rows: RowReduction
) -> Matrix64:
    """Return the scores F, (V, n, c), eq. (13), of some views of n images under a classifier of c classes."""
    rows = ViewRows({view: features.views[view] for view in views})
    scores: Matrix64 = reduce_rows(_scores, (features.basis, classifier), rows, concatenate)
    return scores


def _scores(common: tuple[Basis, Classifier], rows: ViewRows) -> Matrix64:
    basis, classifier = common
    scores = np.empty((len(rows.views), len(rows), len(classifier.b)))
    for index in row_blocks(len(rows), BLOCK_IMAGES):
        for v, view in enumerate(rows.views.values()):
            scores[v, index] = classifier.scores(row_deviations(basis, view, index))
    return scores


def predict(  # noqa: PLR0917  images, model and method come in the same order everywhere
    features: KernelRows,
    cosines: Rows,
    source: SourceModel,
    classifier: Classifier | None,
    options: MethodOptions,
    clip_scale: float,
) -> Prediction:
    """Predict among all classes seen so far.

    ``cosines`` (n, C) are to every class's prompts, ``source`` is the model after the same task, ``classifier`` is the
    target's (not needed by reference rows, which do not adapt), and ``clip_scale`` is the CLIP model's own logit scale.
    """
    classes_seen = np.arange(len(source.means))
    scale, all_classes = options.clip_logit_scale(clip_scale), options.clip_classes_at_test == "all"
    p_vlm = clip_probabilities(cosines, scale, classes_seen, all_classes=all_classes)  # (1)
    if options.predictor == "clip":
        return Prediction(p_vlm, p_vlm, p_vlm)
    if options.predictor == "nearest_mean":
        original, means = features.views["original"], source.embedding_means
        d = means.shape[1]  # without CLIP's columns
        blocks = row_blocks(len(features), BLOCK_IMAGES)
        nearest = np.concatenate([nearest_mean(original[index][:, :d], means) for index in blocks])
        one_hot = np.eye(len(classes_seen))[nearest]
        return Prediction(one_hot, p_vlm, one_hot)
    if options.predictor == "source":
        p = klda_probabilities(features, source.classifier, classes_seen, options, vote=False)
        return Prediction(p, p_vlm, p)
    if classifier is None:
        raise InputError("prediction: the adapted method needs the target's classifier")
    p = klda_probabilities(features, classifier, classes_seen, options, vote=options.vote_at_test)
    return Prediction(p, p_vlm, fuse(p, p_vlm, options.fusion(at_test=True)))  # (14)
