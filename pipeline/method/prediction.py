"""Both branches' probabilities and their fusion, for any classifier: when adapting and at test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError
from pipeline.method.blas_products import product
from pipeline.method.class_statistics import Labels, Matrix64
from pipeline.method.fusion import branch_probabilities, fuse
from pipeline.method.kernel_lda import Classifier
from pipeline.method.nearest_mean import nearest_mean
from pipeline.method.random_fourier_features import Basis
from pipeline.method.row_ranges import ranges_of
from pipeline.method.source_model import SourceModel
from pipeline.method.task_features import IMAGES, Rows, TaskFeatures, blocks_of, subset
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import Matrix, unit_rows


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
    return product(unit_rows(images), unit_rows(texts).T)


@dataclass(frozen=True, eq=False)
class CosineRows:
    """Cosines (n, M) of CLIP image rows (n, d) and texts (M, d), computed when asked for: n × M grows with the rows."""

    images: Rows
    texts: Matrix

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, int]:
        """As an array's."""
        return len(self.images), len(self.texts)

    def __getitem__(self, index: npt.NDArray[np.intp]) -> Matrix64:
        """Return the rows at ascending ``index`` (b,)."""
        return cosines(self.images[index], self.texts)

    def subset(self, index: npt.NDArray[np.intp]) -> CosineRows:
        """Return the rows at ``index``, not computed."""
        return CosineRows(subset(self.images, index), self.texts)


def clip_probabilities(cosine: Matrix64 | CosineRows, scale: float, classes: Labels) -> Matrix64:
    """Return p_VLM (n, |classes|), eq. (1), of cosines (n, M), in blocks of rows."""
    p = np.empty((len(cosine), len(classes)))
    for block in blocks_of(len(cosine), IMAGES):
        p[block] = branch_probabilities(scale * cosine[block], classes)
    return p


def logit_factor(options: MethodOptions) -> float:
    """Return what multiplies the scores of eq. (13): Mahalanobis logits are twice them; then the temperature."""
    return (2.0 if options.logits == "mahalanobis" else 1.0) / options.temperature


def klda_probabilities(
    features: TaskFeatures,
    classifier: Classifier,
    classes: Labels,
    options: MethodOptions,
    *,
    vote: bool,
) -> Matrix64:
    """Return p (n, |classes|), eq. (13): of the original, or the mean over the views if they vote."""
    voters = options.views if vote else options.views[:1]
    if features.elsewhere is not None:
        ranges = ranges_of(np.arange(len(features)), features.elsewhere.count())
        parts = [{v: subset(features.views[v], places) for v in voters} for places in ranges]
        shared = (features.basis, classifier, classes, options, vote)
        return np.concatenate(features.elsewhere.listed(_range_probabilities, shared, parts))
    factor = logit_factor(options)
    p = np.zeros((len(features), len(classes)))
    for images in blocks_of(len(features), IMAGES):
        for view in voters:
            logits = factor * classifier.scores(features.of(view, images))
            p[images] += branch_probabilities(logits, classes)
    return p / len(voters)


def _range_probabilities(
    shared: tuple[Basis, Classifier, Labels, MethodOptions, bool], views: Mapping[str, Rows]
) -> Matrix64:
    basis, classifier, classes, options, vote = shared
    features = TaskFeatures(basis, views, keep=False)
    return klda_probabilities(features, classifier, classes, options, vote=vote)


def predict(
    features: TaskFeatures,
    cosine: Matrix64,
    *,
    source: SourceModel,
    classifier: Classifier | None,
    options: MethodOptions,
    clip_scale: float,
) -> Prediction:
    """Predict over all classes seen, given n images' features, cosines (n, M) and the models after a task.

    classifier: the target's; the reference rows, which do not adapt, need none.
    """
    seen = np.arange(len(source.means))
    scale = options.clip_logit_scale(clip_scale)
    over_all = options.clip_classes_at_test == "all"
    p_vlm = branch_probabilities(scale * cosine, seen, over_all=over_all)  # (1)
    if options.predictor == "clip":
        return Prediction(p_vlm, p_vlm, p_vlm)
    if options.predictor == "nearest_mean":
        original, width = features.views["original"], source.embedding_means.shape[1]
        nearest = [
            nearest_mean(original[block][:, :width], source.embedding_means)
            for block in blocks_of(len(features), IMAGES)
        ]
        one_hot = np.eye(len(seen))[np.concatenate(nearest)]
        return Prediction(one_hot, p_vlm, one_hot)
    if options.predictor == "source":
        p = klda_probabilities(features, source.classifier, seen, options, vote=False)
        return Prediction(p, p_vlm, p)
    if classifier is None:
        raise InputError("prediction: the adapted method needs the target's classifier")
    vote = options.vote_at_test
    p = klda_probabilities(features, classifier, seen, options, vote=vote)
    return Prediction(p, p_vlm, fuse(p, p_vlm, options.fusion(at_test=True)))  # (14)
