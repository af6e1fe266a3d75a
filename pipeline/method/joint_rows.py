"""Vision and CLIP embeddings of an image side by side, as one input of the kernel.

x = [g/‖g‖ ; λ c/‖c‖], normalised like every row, so that the kernel of eq. (3) becomes
exp(−gamma (‖Δg‖² + λ² ‖Δc‖²) / (1 + λ²)) over unit g and c. A deviation from the paper, whose kernel sees the ViT
alone and whose CLIP speaks only through the class names: two encoders trained differently err differently, and their
image embeddings are cached anyway. Every view of an image is given CLIP's embedding of the original. docs/method.md
says on what evidence λ = 0.5 was chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError
from pipeline.method.random_fourier_features import Basis
from pipeline.method.row_ranges import RowRanges
from pipeline.method.task_features import Rows, TaskFeatures, subset
from pipeline.method.zero_shot import Matrix, unit_rows


@dataclass(frozen=True)
class JointRows:
    """Rows [g/‖g‖ ; λ c/‖c‖], (n, d + d'), of vision rows g (n, d) and CLIP rows c (n, d')."""

    vision: Rows
    clip: Rows
    share: float

    def __post_init__(self) -> None:
        """Refuse rows that are not of the same images."""
        if len(self.vision) != len(self.clip):
            counts = f"{len(self.vision)} vision and {len(self.clip)} CLIP rows"
            raise InputError(f"embeddings: {counts} do not belong together")

    def __len__(self) -> int:
        return len(self.vision)

    @property
    def shape(self) -> tuple[int, int]:
        """As an array's."""
        return len(self), self.vision.shape[1] + self.clip.shape[1]

    def __getitem__(self, index: npt.NDArray[np.intp]) -> Matrix:
        """Return the rows at ascending ``index`` (b,)."""
        parts = (unit_rows(self.vision[index]), self.share * unit_rows(self.clip[index]))
        return np.hstack(parts).astype(np.float32)

    def subset(self, index: npt.NDArray[np.intp]) -> JointRows:
        """Return the rows at ``index`` of these, unread."""
        return JointRows(subset(self.vision, index), subset(self.clip, index), self.share)


def kernel_features(
    basis: Basis,
    views: Mapping[str, Rows],
    clip: Rows | None,
    share: float,
    elsewhere: RowRanges | None = None,
) -> TaskFeatures:
    """Return the features of images by view: of vision alone, or with a ``share`` λ of CLIP's embeddings.

    Without CLIP rows the kernel is vision's alone. elsewhere: who takes ranges of the rows if they are many.
    """
    if not share or clip is None:
        return TaskFeatures(basis, views, elsewhere=elsewhere)
    joined = {name: JointRows(rows, clip, share) for name, rows in views.items()}
    return TaskFeatures(basis.joint(), joined, elsewhere=elsewhere)
