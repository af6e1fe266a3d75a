"""Refine the views adversarially: gradient ascent on their pixels to raise the source model's loss.

The paper's text mentions it ("refined over T_max iterations using the gradient ascent procedure", below eq. (15)), but
its algorithm and the released code omit it, as does the default.

The loss is the cross-entropy of the source KLDA branch, p = softmax(F) over the task's classes, eq. (13), for the
image's pseudo-label. The text gives neither a step size nor a bound. Here every step adds ``step_size`` times the sign
of the gradient, and a view stays within ``radius`` of its first value (L∞) and within [0, 1].
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
Objective = Callable[[Tensor], Tensor]  # embeddings (n, d) to values to maximise (n,), row by row


@dataclass(frozen=True)
class Ascent:
    """Settings of the refinement: ``steps`` is T_max; ``step_size`` and ``radius`` are in pixel values, [0, 1]."""

    steps: int
    step_size: float
    radius: float


class SourceBranch:
    """The source KLDA branch over a task's classes (|C|,) as differentiable functions of embeddings.

    It runs in float64 on the CPU, whatever the encoder's device: scores are small differences of large terms, and the
    cost is negligible compared with the encoder's. If CLIP is in the kernel (``clip_weight`` λ), its rows (n, d') add a
    constant part to the phases, which does not depend on the view's pixels, see `kernel_rows`.
    """

    def __init__(
        self, basis: Basis, classifier: Classifier, classes: Labels, clip: Matrix | None = None, clip_weight: float = 0
    ) -> None:
        self._omega = torch.from_numpy(basis.omega.astype(np.float64))
        self._beta = torch.from_numpy(basis.beta.astype(np.float64))
        of_task = classifier.for_classes(classes)
        self._W, self._b = torch.from_numpy(of_task.W), torch.from_numpy(of_task.b)
        self._scale, self._clip_weight = -2 * basis.scale, clip_weight
        self._clip_phases: Tensor | None = None
        if clip is not None and clip_weight:
            clip_omega = basis.joint().omega[basis.d :].astype(np.float64)
            self._clip_phases = torch.from_numpy(clip_weight * unit_rows(clip) @ clip_omega)

    def deviation(self, embeddings: Tensor, images: Tensor | None = None) -> Tensor:
        """Return z(x) − z(0), (n, D), of normalised rows (n, d), as `random_fourier_features.deviations` does.

        ``images`` (n,) are the row numbers of the images among CLIP's rows, required if CLIP is in the kernel.
        """
        x = embeddings.to("cpu", torch.float64)
        norms: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        phases = (x / norms.clamp_min(torch.finfo(x.dtype).tiny)) @ self._omega
        if self._clip_phases is not None:
            if images is None:
                raise InputError("refinement: CLIP is in the kernel, so the row numbers of the images are required")
            phases = (phases + self._clip_phases[images.cpu()]) / math.sqrt(1 + self._clip_weight**2)
        half = phases / 2
        return self._scale * torch.sin(half) * torch.sin(half + self._beta)

    def scores(self, embeddings: Tensor, images: Tensor | None = None) -> Tensor:
        """Return the scores F, (n, |C|), eq. (13), up to a constant per row, as `Classifier.scores` does."""
        return self.deviation(embeddings, images) @ self._W + self._b

    def log_odds(self, embeddings: Tensor, positions: Tensor) -> Tensor:
        """Return log((1 − p_y) / p_y), (n,), of p = softmax(F), for the labels' ``positions`` (n,) among the classes.

        If CLIP is in the kernel, ``positions`` is (n, 2): that of the label, and that of the image among CLIP's rows.

        The cross-entropy is softplus of this, so both have the same direction of ascent. But for an image with a very
        confident label, the loss and its gradient may be 1e-50, which float32 does not carry to the pixels.
        """
        labels, images = (positions[:, 0], positions[:, 1]) if positions.ndim == 2 else (positions, None)
        scores = self.scores(embeddings, images)
        if scores.shape[1] == 1:  # with a single class the loss is constant
            return 0 * scores[:, 0]
        labelled = torch.nn.functional.one_hot(labels.cpu(), scores.shape[1]).bool()
        return torch.logsumexp(scores.masked_fill(labelled, -math.inf), dim=1) - scores[labelled]


def ascend(images: Tensor, forward: Forward, objective: Objective, ascent: Ascent) -> Tensor:
    """Return ``images`` (n, c, h, w) in [0, 1] after T_max steps of gradient ascent on ``objective``.

    The objective is the loss of each embedding or any increasing function of it. Images are independent: neither
    ``forward`` nor ``objective`` may mix rows.
    """
    low = (images - ascent.radius).clamp_(min=0)
    high = (images + ascent.radius).clamp_(max=1)
    for _ in range(ascent.steps):
        direction = pixel_gradient(images, forward, objective).sign()
        images = torch.clamp(images + ascent.step_size * direction, low, high)
    return images


def pixel_gradient(images: Tensor, forward: Forward, objective: Objective) -> Tensor:
    """Return ∂objective/∂pixels, (n, c, h, w), of each image's own objective."""
    with torch.enable_grad():
        pixels = images.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(objective(forward(pixels)).sum(), pixels)
    return gradient
