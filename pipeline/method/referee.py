"""REFEREE under one basis and one set of options: what stays the same from task to task."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.method.kernel_rows import KernelRows, Sharing, kernel_rows, not_shared
from pipeline.method.random_fourier_features import Basis
from pipeline.method.row_reduction import RowReduction, reduce_here
from pipeline.method.rows import Labels, Matrix64, Rows, UnlabelledRows
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import clip_probabilities


@dataclass(frozen=True, eq=False)
class Referee:
    """The method, ready to label and to adapt."""

    basis: Basis
    options: MethodOptions
    clip_scale: float  # the CLIP model's own logit scale
    reduce_rows: RowReduction = reduce_here
    # keeps features and neighbours for other variants that are run on the same images
    shared: Sharing = not_shared

    def features(self, images: UnlabelledRows) -> KernelRows:
        """Return the kernel's input rows of n images, with their features."""
        return kernel_rows(self.basis, images, self.options.clip_in_kernel, self.shared)

    def clip(self, cosines: Rows, classes: Labels) -> Matrix64:
        """Return p_VLM (n, c) over ``classes`` (c,), eq. (1), of cosines (n, C)."""
        return clip_probabilities(cosines, self.options.clip_logit_scale(self.clip_scale), classes)
