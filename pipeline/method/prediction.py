"""The KLDA branch's probabilities, and the prediction: both branches fused, or a reference that does not adapt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError
from pipeline.method.fusion import fuse
from pipeline.method.kernel_lda import Classifier
from pipeline.method.kernel_rows import KernelRows, deviations_of
from pipeline.method.nearest_mean import nearest_mean
from pipeline.method.random_fourier_features import Basis
from pipeline.method.row_reduction import RowReduction, concatenate, reduce_here
from pipeline.method.rows import BLOCK_IMAGES, Labels, Matrix64, Rows, ViewRows, row_blocks
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import branch_probabilities, clip_probabilities


@dataclass(frozen=True, eq=False)
class Prediction:
    """Probabilities of n images over the K classes seen."""

    klda: Matrix64  # (n, K) of the kernel LDA branch, eq. (13)
    clip: Matrix64  # (n, K) of the CLIP branch, eq. (1)
    fused: Matrix64  # (n, K) of both, eq. (14)

    @property
    def label(self) -> npt.NDArray[np.intp]:
        """The predicted class (n,)."""
        return np.asarray(self.fused.argmax(axis=1))


def logit_factor(options: MethodOptions) -> float:
    """Return what multiplies the scores of eq. (13): Mahalanobis logits are twice them."""
    return 2.0 if options.logits == "mahalanobis" else 1.0


@dataclass(frozen=True, eq=False)
class _Branch:
    """What all rows share: the logits are factor · scores."""

    basis: Basis
    classifier: Classifier
    classes: Labels
    factor: float


def klda_probabilities(
    features: KernelRows,
    classifier: Classifier,
    classes: Labels,
    options: MethodOptions,
    *,
    vote: bool,
    reduce_rows: RowReduction = reduce_here,
) -> Matrix64:
    """Return p = softmax(F) over ``classes`` (c,), (n, c), eq. (13); averaged over the views if they ``vote``."""
    voters = options.views if vote else options.views[:1]
    rows = ViewRows({view: features.views[view] for view in voters})
    shared = _Branch(features.basis, classifier, classes, logit_factor(options))
    return reduce_rows(_branch_probabilities, shared, rows, concatenate)


def _branch_probabilities(shared: _Branch, rows: ViewRows) -> Matrix64:
    p = np.zeros((len(rows), len(shared.classes)))
    for index in row_blocks(len(rows), BLOCK_IMAGES):
        for view in rows.views.values():
            scores = shared.classifier.scores(deviations_of(shared.basis, view, index))
            p[index] += branch_probabilities(shared.factor * scores, shared.classes)
    return p / len(rows.views)


def predict(
    features: KernelRows,
    cosine: Rows,
    *,
    source: SourceModel,
    classifier: Classifier | None,
    options: MethodOptions,
    clip_scale: float,
    reduce_rows: RowReduction = reduce_here,
) -> Prediction:
    """Predict over all classes seen so far.

    Parameters
    ----------
    features : KernelRows
        Of n images.
    cosine : Rows of shape (n, C)
        Cosines of the images to every class's prompts.
    source : SourceModel
        The source model after the same task.
    classifier : Classifier, optional
        The target's; reference rows, which do not adapt, need none.
    """
    seen = np.arange(len(source.means))
    scale = options.clip_logit_scale(clip_scale)
    over_all = options.clip_classes_at_test == "all"
    p_vlm = clip_probabilities(cosine, scale, seen, over_all=over_all)  # (1)
    if options.predictor == "clip":
        return Prediction(p_vlm, p_vlm, p_vlm)
    if options.predictor == "nearest_mean":
        one_hot = np.eye(len(seen))[_nearest(features, source.embedding_means)]
        return Prediction(one_hot, p_vlm, one_hot)
    if options.predictor == "source":
        p = klda_probabilities(
            features, source.classifier, seen, options, vote=False, reduce_rows=reduce_rows
        )
        return Prediction(p, p_vlm, p)
    if classifier is None:
        raise InputError("prediction: the adapted method needs the target's classifier")
    vote = options.vote_at_test
    p = klda_probabilities(features, classifier, seen, options, vote=vote, reduce_rows=reduce_rows)
    return Prediction(p, p_vlm, fuse(p, p_vlm, options.fusion(at_test=True)))  # (14)


def _nearest(features: KernelRows, means: Matrix64) -> npt.NDArray[np.intp]:
    """Return for each image (n,) the class whose mean embedding (K, d) is nearest; CLIP's columns are left out."""
    original, d = features.views["original"], means.shape[1]
    blocks = row_blocks(len(features), BLOCK_IMAGES)
    return np.concatenate([nearest_mean(original[index][:, :d], means) for index in blocks])
