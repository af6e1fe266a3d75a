"""Classify frozen features without training: CLIP zero-shot, eq. (1), and the nearest class mean.

The printed formula of zero-shot drops the temperature in its denominator, and the released code uses scale 1, which
makes the probabilities almost uniform. Here the scale is an argument, and callers pass the model's own.
"""

from functools import partial

import numpy as np
import numpy.typing as npt

from pipeline.method.rows import BLOCK_IMAGES, ComputedRows, Labels, Matrix, Matrix64, Rows, row_blocks, unit_rows


def softmax(logits: Matrix) -> Matrix64:
    """Return the softmax over the last axis, shifted by the maximum to avoid overflow.

    Examples
    --------
    >>> softmax(np.array([[1000.0, 1000.0]]))
    array([[0.5, 0.5]])
    """
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True), dtype=np.float64)


def cosines(images: Matrix, texts: Matrix) -> Matrix64:
    """Return the cosines cos(v(x), t(c)), (n, C), of CLIP's image (n, d) and text (C, d) embeddings."""
    return unit_rows(images) @ unit_rows(texts).T


def cosine_rows(images: Rows, texts: Matrix) -> ComputedRows:
    """Return lazy rows of `cosines`, (n, C), which are computed when they are indexed."""
    return ComputedRows(partial(cosines, texts=texts), (images,), len(texts))


def clip_probabilities(cosine: Rows, scale: float, classes: Labels, *, all_classes: bool = False) -> Matrix64:
    """Return p_VLM over ``classes`` (c,), (n, c), eq. (1), given cosines (n, C) and the model's ``scale`` s.

    With ``all_classes``, take the softmax over all C classes and then the columns of ``classes``, as the released code
    does at test: rows do not sum to 1.
    """
    p = np.empty((len(cosine), len(classes)))
    for block in row_blocks(len(cosine), BLOCK_IMAGES):
        logits = scale * cosine[block]
        p[block] = softmax(logits)[:, classes] if all_classes else softmax(logits[:, classes])
    return p


def class_means(rows: Rows, labels: Labels, classes: int) -> Matrix64:
    """Return the class means (C, d) of normalised rows (n, d), read in blocks; NaN for a class without rows."""
    sums, counts = np.zeros((classes, rows.shape[1])), np.bincount(labels, minlength=classes)
    for block in row_blocks(len(rows), BLOCK_IMAGES):
        sums += np.eye(classes)[labels[block]].T @ unit_rows(rows[block])
    return np.asarray(sums / np.where(counts > 0, counts, np.nan)[:, None])


def nearest_mean(x: Matrix, means: Matrix64) -> npt.NDArray[np.intp]:
    """Return the class (n,) with the nearest mean (Euclidean distance) for each row of ``x`` (n, d), normalised."""
    # ‖z − μ‖² = ‖z‖² − 2 z·μ + ‖μ‖², and ‖z‖² is the same for every class
    scores = unit_rows(x) @ np.nan_to_num(means).T - 0.5 * np.einsum("cd,cd->c", means, means)
    return np.asarray(np.argmax(np.where(np.isnan(scores), -np.inf, scores), axis=1))
