"""CLIP zero-shot probabilities, eq. (1).

Deviations, both for the better: the printed formula drops the temperature in its denominator, and the released code
uses scale 1, which makes the probabilities almost uniform. Here the scale is an argument; callers pass the model's own.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError

Matrix = npt.NDArray[np.floating]


def unit_rows(x: Matrix) -> npt.NDArray[np.float64]:
    """Return the rows of ``x`` (n, d) scaled to length 1; a zero row stays zero, NaN and infinity are refused."""
    x64 = x.astype(np.float64)
    norms = np.linalg.norm(x64, axis=1, keepdims=True)
    if not np.isfinite(norms).all():
        row = int(np.flatnonzero(~np.isfinite(norms))[0])
        raise InputError(f"embeddings: row {row} of {len(x)} is not finite (NaN or infinity)")
    unit: npt.NDArray[np.float64] = np.divide(x64, norms, out=np.zeros_like(x64), where=norms > 0)
    return unit


def softmax(logits: Matrix) -> npt.NDArray[np.float64]:
    """Return the softmax over the last axis, shifted by the maximum so that nothing overflows."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True), dtype=np.float64)


def zero_shot_probabilities(images: Matrix, texts: Matrix, scale: float) -> npt.NDArray[np.float64]:
    """Return p_VLM (n, C), eq. (1): softmax_c(s · cos(v(x), t(c))) of images (n, d) and texts (C, d)."""
    return softmax(scale * (unit_rows(images) @ unit_rows(texts).T))
