"""Adversarial refinement of the views: gradient ascent on their pixels against the source model's loss.

The paper's text asks for it ("refined over T_max iterations using the gradient ascent procedure", below eq. (15));
its algorithm and the released code do without, and so does the default, which has no steps.

The loss is the cross-entropy of the source KLDA branch, p = softmax(F) over the task's classes, eq. (13), for the
image's pseudo-label. The text gives neither a step nor a bound; here every step adds ``step_size`` times the sign of
the gradient, and a view stays within ``radius`` of itself (L∞) and within [0, 1].
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pipeline.errors import InputError
from pipeline.method.kernel_lda import Classifier
from pipeline.method.random_fourier_features import Basis
from pipeline.method.rows import Labels, Matrix, unit_rows

Forward = Callable[[Tensor], Tensor]  # images (n, c, h, w) to embeddings (n, d), differentiable
Height = Callable[[Tensor], Tensor]  # embeddings (n, d) to what is climbed (n,), row by row


@dataclass(frozen=True)
class Ascent:
    """How views are refined: steps is T_max; step_size and radius are in pixel values, [0, 1]."""

    steps: int
    step_size: float
    radius: float


class SourceBranch:
    """The source KLDA branch over a task's classes (|C|,) as differentiable functions of embeddings.

    Float64 on the CPU, whatever the encoder's device: scores are small differences of large terms, and beside the
    encoder this costs nothing. Where CLIP is in the kernel (``clip_weight`` λ), its rows (n, d') add a part to the
    phases that no pixel of a view changes, see `kernel_rows`.
    """

    def __init__(
        self, basis: Basis, classifier: Classifier, classes: Labels, clip: Matrix | None = None, clip_weight: float = 0
    ) -> None:
        self._omega = torch.from_numpy(basis.omega.astype(np.float64))
        self._beta = torch.from_numpy(basis.beta.astype(np.float64))
        of_classes = classifier.of(classes)
        self._W, self._b = torch.from_numpy(of_classes.W), torch.from_numpy(of_classes.b)
        self._scale, self._clip_weight = -2 * basis.scale, clip_weight
        self._clip_phases: Tensor | None = None
        if clip is not None and clip_weight:
            clip_omega = basis.joint().omega[basis.d :].astype(np.float64)
            self._clip_phases = torch.from_numpy(clip_weight * unit_rows(clip) @ clip_omega)

    def deviation(self, embeddings: Tensor, images: Tensor | None = None) -> Tensor:
        """Return z(x) − z(0), (n, D), of L2-normalised rows (n, d): `random_fourier_features.deviations`.

        ``images`` (n,): which of CLIP's rows are theirs, where there are any.
        """
        x = embeddings.to("cpu", torch.float64)
        norms: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        phases = (x / norms.clamp_min(torch.finfo(x.dtype).tiny)) @ self._omega
        if self._clip_phases is not None:
            if images is None:
                raise InputError("refinement: CLIP is in the kernel, but which images these are is not given")
            phases = (phases + self._clip_phases[images.cpu()]) / math.sqrt(1 + self._clip_weight**2)
        half = phases / 2
        return self._scale * torch.sin(half) * torch.sin(half + self._beta)

    def scores(self, embeddings: Tensor, images: Tensor | None = None) -> Tensor:
        """Return F, (n, |C|), eq. (13), up to a constant per row: `Classifier.scores`."""
        return self.deviation(embeddings, images) @ self._W + self._b

    def log_odds(self, embeddings: Tensor, positions: Tensor) -> Tensor:
        """Return log((1 − p_y) / p_y), (n,), of p = softmax(F), for the labels' ``positions`` (n,) among the classes.

        Where CLIP is in the kernel, ``positions`` is (n, 2): the label's, and the image's among CLIP's rows.

        The cross-entropy is softplus of this, so both have the same uphill direction. But of an image that the source
        is sure of the loss and its gradient may be 1e-50, which float32 does not carry to the pixels.
        """
        labels, images = (positions[:, 0], positions[:, 1]) if positions.ndim == 2 else (positions, None)
        scores = self.scores(embeddings, images)
        if scores.shape[1] == 1:  # a single class cannot be mistaken: flat
            return 0 * scores[:, 0]
        own = torch.nn.functional.one_hot(labels.cpu(), scores.shape[1]).bool()
        return torch.logsumexp(scores.masked_fill(own, -math.inf), dim=1) - scores[own]


def ascend(images: Tensor, forward: Forward, height: Height, ascent: Ascent) -> Tensor:
    """Return ``images`` (n, c, h, w) in [0, 1] after T_max steps up ``height``; with none, themselves.

    The height is the loss of each embedding, or anything that rises with it. No image touches another: neither
    ``forward`` nor ``height`` may mix rows.
    """
    low = (images - ascent.radius).clamp_(min=0)
    high = (images + ascent.radius).clamp_(max=1)
    for _ in range(ascent.steps):
        uphill = pixel_gradient(images, forward, height).sign()
        images = torch.clamp(images + ascent.step_size * uphill, low, high)
    return images


def pixel_gradient(images: Tensor, forward: Forward, height: Height) -> Tensor:
    """Return ∂height/∂pixels, (n, c, h, w), each image's of its own height."""
    with torch.enable_grad():
        pixels = images.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(height(forward(pixels)).sum(), pixels)
    return gradient
