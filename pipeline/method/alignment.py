"""Alignment of a task's mean with the source's: how far the domain has shifted as a whole.

The mean z̄ of a task's rows should be Σ_c π_c μ_c, the source's class means by the task's shares π of the classes. The
difference Δ = z̄ − Σ_c π_c μ_c is the shift of the domain. The source's classifier is asked about z − Δ,

    F(z − Δ) = F(z) − ΔᵀW,

where of Δ no more than ΔᵀW is needed, and z̄ᵀW is the mean score less the bias. π is `expected_shares`: the average of
CLIP's mean probabilities, which the shift of the vision model does not touch, and of equal shares.
"""

from __future__ import annotations

import numpy as np

from pipeline.method.kernel_lda import Classifier
from pipeline.method.rows import Labels, Matrix64, Vector64


def expected_shares(p_vlm: Matrix64) -> Vector64:
    """Return π (c,), half-way from equal shares to the mean of CLIP's probabilities (n, c), eq. (1), of a task.

    The mean leans towards classes that CLIP prefers in this domain. Half-way to equal shares it is as near to the true
    ones where these are far from equal, and nearer where they are not (docs/evidence.md).

    Examples
    --------
    >>> expected_shares(np.array([[1.0, 0.0], [0.6, 0.4]])).tolist()
    [0.65, 0.35]
    """
    return np.asarray((p_vlm.mean(axis=0) + 1 / p_vlm.shape[1]) / 2)


def aligned(scores: Matrix64, classifier: Classifier, means: Matrix64, classes: Labels, shares: Vector64) -> Matrix64:
    """Return the scores of a task's rows less its shift.

    Parameters
    ----------
    scores : ndarray of shape (V, n, c)
        F of every view of every image over the task's classes, eq. (13).
    classifier : Classifier
        The source's, of K classes.
    means : ndarray of shape (K, D)
        Class means of the source, less the pivot.
    classes : ndarray of shape (c,)
        The task's classes.
    shares : ndarray of shape (c,)
        π, the share of each class in the task.

    Returns
    -------
    ndarray of shape (V, n, c)
    """
    observed = scores.mean(axis=(0, 1)) - classifier.b[classes]  # z̄ᵀW
    expected = shares @ (means[classes] @ classifier.W[:, classes])  # Σ_c π_c μ_cᵀW
    return np.asarray(scores - (observed - expected))
