"""One backbone that embeds image files: decode, crop, make the views, embed.

This is the only implementation. Stage `embed` uses it here and on workers of a cluster, `referee
predict` uses it for new images; an image therefore gets the same row from all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from pipeline.encoders.backbone import build_image_encoder
from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.encoders.view_embedder import Prepared, ViewEmbedder
from pipeline.extraction.batches import Batch, ViewEmbeddings, stream
from pipeline.extraction.embedding_settings import EmbeddingSettings
from pipeline.extraction.images import load_crops
from pipeline.extraction.ordered_map import worker_count


class ImageEmbedder:
    """Embeds batches of image files.

    Parameters
    ----------
    encoder : ImageEncoder
        The frozen backbone, built.
    settings : EmbeddingSettings
        Views, batch size, threads and the type of the rows.
    """

    def __init__(self, encoder: ImageEncoder, settings: EmbeddingSettings) -> None:
        self.encoder = encoder
        self._settings = settings
        self._views = ViewEmbedder(encoder, settings.views, rows=settings.batch_size)

    @classmethod
    def build(cls, settings: EmbeddingSettings, *, device: str | None = None) -> ImageEmbedder:
        """Build the backbone on ``device`` (by default that of the settings)."""
        torch.set_num_threads(1)  # parallel over batches instead: see view_embedder
        encoder = build_image_encoder(settings.backbone, device or settings.device)
        if settings.compile and encoder.device.type != "cpu":  # rows of a CPU are the same bytes everywhere
            encoder.compile()
        return cls(encoder, settings)

    @property
    def batch_size(self) -> int:
        """Images of one forward pass."""
        return self._views.rows

    @property
    def is_thread_parallel(self) -> bool:
        """Whether several threads embed at once (the CPU) or one feeds the device (an accelerator)."""
        return self._views.is_thread_parallel

    def embed(self, batches: Sequence[Batch], *, workers: int | None = None) -> Iterator[tuple[Batch, ViewEmbeddings]]:
        """Yield every batch with its rows, in order."""
        dtype = self._settings.backbone.stored_as

        def load(batch: Batch) -> Prepared:
            crops = load_crops(batch.images, self.encoder.preprocessing)
            return self._views.prepare(crops, batch.digests, batch.views)

        def start(_batch: Batch, prepared: Prepared) -> Callable[[], ViewEmbeddings]:
            return self._views.start(prepared, dtype)

        count = worker_count(self._settings.workers) if workers is None else workers
        return stream(batches, load=load, start=start, device=self._views, workers=count)
