"""Everything that says how images become rows, as plain values that travel to other processes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.encoders.backbone import Backbone

if TYPE_CHECKING:
    from pipeline.method.frequency_views import ViewSettings

# The version of stage `embed` and of the rows in its progress log. Raise it when the same image, weights and settings
# give other rows: then, and only then, features are extracted again.
ROWS_VERSION = 3


@dataclass(frozen=True)
class EmbeddingSettings:
    """How images become rows of embeddings.

    The first two decide the rows; the others only how fast they come.
    """

    backbone: Backbone
    views: ViewSettings  # how the frequency-aware views are made
    device: str = "auto"  # ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``
    batch_size: int = 64  # images of a forward pass on an accelerator
    workers: int = 0  # threads; 0: one per core
    compile: bool = False  # by torch.compile, on an accelerator

    def absolute(self) -> EmbeddingSettings:
        """Return the settings for a process that runs in another folder."""
        return replace(self, backbone=self.backbone.absolute())
