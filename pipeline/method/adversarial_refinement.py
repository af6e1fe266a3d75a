"""Adversarial refinement of the views: gradient ascent on their pixels against the source model's loss.

The paper's text asks for it ("refined over T_max iterations using the gradient ascent procedure", below eq. (15));
its algorithm and the released code do without, and so do we unless told: with no steps nothing here runs.

The loss is the cross-entropy of the source KLDA branch, p = softmax(F) over the task's classes, eq. (13), for the
image's pseudo-label. The text gives neither a step nor a bound; here every step adds ``step_size`` times the sign of
the gradient, and a view stays within ``radius`` of itself (L∞) and within [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pipeline.errors import InputError, ParamsError
from pipeline.method.class_statistics import Labels
from pipeline.method.kernel_lda import Classifier
from pipeline.method.random_fourier_features import Basis
from pipeline.method.zero_shot import Matrix, unit_rows

Forward = Callable[[Tensor], Tensor]  # images (n, c, h, w) to embeddings (n, d), differentiable
Height = Callable[[Tensor], Tensor]  # embeddings (n, d) to what is climbed (n,), row by row


@dataclass(frozen=True)
class Ascent:
    """How views are refined: steps is T_max; step_size and radius are in pixel values, [0, 1]."""

    steps: int
    step_size: float
    radius: float

    def __post_init__(self) -> None:
        """Refuse what cannot be computed, naming the key."""
        if self.steps < 0:
            raise ParamsError(f"refinement.steps: a whole number from 0 on, not {self.steps!r}")
        for name in ("step_size", "radius"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ParamsError(f"refinement.{name}: a number above 0, not {value!r}")


class JointConstant:
    """CLIP's part of the phases of n images, λ ωᵀc, and how it joins the vision part: see `joint_rows`."""

    def __init__(self, basis: Basis, clip: Matrix, share: float) -> None:
        """Take CLIP's rows (n, d') and λ."""
        if basis.clip is None:
            raise InputError("basis: it has no frequencies for CLIP's embeddings; run dvc repro")
        self._share = share
        self._phases = torch.from_numpy(share * unit_rows(clip) @ basis.clip.astype(np.float64))

    def joined(self, phases: Tensor, images: Tensor | None) -> Tensor:
        """Return the phases of the normalised joint rows, from those of the unit vision rows (n, D)."""
        if images is None:
            raise InputError("refinement: which images these are must be said")
        return (phases + self._phases[images.cpu()]) / math.sqrt(1 + self._share**2)


class SourceBranch:
    """The source KLDA branch over a task's classes as differentiable functions of embeddings.

    Float64 on the CPU, whatever the encoder's device: scores are small differences of large terms, and beside the
    encoder this costs nothing.
    """

    def __init__(
        self,
        basis: Basis,
        classifier: Classifier,
        classes: Labels,
        clip: JointConstant | None = None,
    ) -> None:
        """Take the columns ``classes`` (|C|,) of the source's ``classifier``.

        clip: the part of the kernel's input that no pixel of a view changes, where CLIP is in the kernel.
        """
        self._omega = torch.from_numpy(basis.omega.astype(np.float64))
        self._beta = torch.from_numpy(basis.beta.astype(np.float64))
        self._W = torch.from_numpy(classifier.W[:, classes].astype(np.float64))
        self._b = torch.from_numpy(classifier.b[classes].astype(np.float64))
        self._scale = -2 * basis.scale
        self._clip = clip

    def deviation(self, embeddings: Tensor, images: Tensor | None = None) -> Tensor:
        """Return z(x) − z(0), (n, D), of L2-normalised rows (n, d): `random_fourier_features.deviation`.

        images: (n,) which rows of the constant part are theirs, where there is one.
        """
        x = embeddings.to("cpu", torch.float64)
        norms: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        phases = (x / norms.clamp_min(torch.finfo(x.dtype).tiny)) @ self._omega
        if self._clip is not None:
            phases = self._clip.joined(phases, images)
        half = phases / 2
        return self._scale * torch.sin(half) * torch.sin(half + self._beta)

    def scores(self, embeddings: Tensor, images: Tensor | None = None) -> Tensor:
        """Return F, (n, |C|), eq. (13), up to a constant per row: `Classifier.scores`."""
        return self.deviation(embeddings, images) @ self._W + self._b

    def log_odds(self, embeddings: Tensor, places: Tensor) -> Tensor:
        """Return log((1 − p_y) / p_y), (n,), of p = softmax(F), for labels as ``places`` (n,) among the classes.

        Where CLIP is in the kernel, ``places`` is (n, 2): the label's place, and the image's row of the constant part.

        The loss is softplus of this, so both have the same uphill direction. But of an image that the source is sure
        of the loss and its gradient may be 1e-50, which float32 does not carry back to the pixels; these do not vanish.
        """
        labels, images = (places[:, 0], places[:, 1]) if places.ndim == 2 else (places, None)
        scores = self.scores(embeddings, images)
        if scores.shape[1] == 1:  # a single class cannot be mistaken: flat
            return 0 * scores[:, 0]
        own = torch.nn.functional.one_hot(labels.cpu(), scores.shape[1]).bool()
        return torch.logsumexp(scores.masked_fill(own, -math.inf), dim=1) - scores[own]

    def loss(self, embeddings: Tensor, places: Tensor) -> Tensor:
        """Return the cross-entropy −log p_y, (n,); arguments as of `log_odds`."""
        if len(self._b) == 1:
            return self.log_odds(embeddings, places)
        return torch.nn.functional.softplus(self.log_odds(embeddings, places))


def ascend(images: Tensor, forward: Forward, height: Height, ascent: Ascent) -> Tensor:
    """Return ``images`` (n, c, h, w) in [0, 1] after T_max steps up ``height``; with none, themselves.

    height: the loss of each embedding, or anything that rises with it. No image touches another: neither ``forward``
    nor ``height`` may mix rows.
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
