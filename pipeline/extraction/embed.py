"""Embed the images of a manifest through the progress log, and new images that are in no manifest."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipeline.errors import ModelError, counted
from pipeline.extraction.cluster import Cluster
from pipeline.extraction.embed_on_cluster import embed_on_cluster
from pipeline.extraction.embedding_settings import (
    EmbeddingSettings,
    backbone_identity,
    require_matching_store,
    row_key,
    settings_of_view,
)
from pipeline.extraction.image_embedder import ImageEmbedder, plan_batches
from pipeline.extraction.images import Image
from pipeline.extraction.progress import Progress
from pipeline.method.rows import Matrix
from pipeline.store.embedding_store import SHARD_ROWS, EmbeddedView, EmbeddingStore, Provenance
from pipeline.store.progress_log import ProgressLog


class EmbeddedImages(NamedTuple):
    """Embeddings of a manifest's images, ready for `write_embeddings`."""

    views: dict[str, EmbeddedView]  # rows are read from the progress log on demand
    backbone: Provenance  # see `backbone_identity`
    summary: str  # one line to print


@contextmanager
def embed_images(
    images: Sequence[Image],
    views: Sequence[str],
    settings: EmbeddingSettings,
    *,
    progress: Path,
    writer: str,
    cluster: Cluster | None = None,
) -> Iterator[EmbeddedImages]:
    """Embed the images missing from the logs in the folder ``progress``, and yield the rows of all images.

    A killed run continues where it stopped and ends with the same bytes. ``writer`` names this extraction, so that no
    two processes run it at once. Without ``cluster`` this process embeds.
    """
    # On a cluster the workers embed; the model is built here only for its identity.
    embedder = ImageEmbedder.build(settings, device="cpu" if cluster else None)
    encoder, dtype = embedder.encoder, settings.backbone.stored_as
    with ExitStack() as stack:
        folders = {view: progress / row_key(encoder, settings, view) for view in views}
        logs = {
            view: stack.enter_context(ProgressLog(folder, writer, width=encoder.width, dtype=dtype))
            for view, folder in folders.items()
        }
        summary = _fill(logs, images, embedder, cluster)
        rows = {
            view: EmbeddedView(
                len(images), encoder.width, dtype, settings_of_view(view, settings.views), _shards(log, images)
            )
            for view, log in logs.items()
        }
        yield EmbeddedImages(rows, backbone_identity(encoder), summary)


def _fill(
    logs: dict[str, ProgressLog], images: Sequence[Image], embedder: ImageEmbedder, cluster: Cluster | None
) -> str:
    """Embed the rows missing from the logs and append them batch by batch; return a summary."""
    # Sorted, because rows of a private domain are shuffled and images of one shard should be read together.
    by_path = sorted(images, key=lambda image: str(image.path))
    batches = plan_batches(by_path, tuple(logs), embedder.batch_size, lambda view, digest: digest in logs[view])
    count = sum(len(batch.images) for batch in batches)
    start = time.perf_counter()
    if cluster:
        results = embed_on_cluster(cluster, embedder.settings, embedder.encoder.fingerprint, batches)
    else:
        results = embedder.embed(batches)
    with Progress("embed", count) as bar:
        for batch, embedded in results:
            for view, rows in embedded.items():
                logs[view].append(batch.digests, rows)
            bar.update(len(batch.images))
    place = f" on {cluster.address}" if cluster else ""
    rate = f" ({count / (time.perf_counter() - start):.0f} images/s{place})" if count else ""
    copies = len(images) - len({image.digest for image in images})
    note = f", {counted(copies, 'copy')} embedded once" if copies and count else ""
    return f"{counted(len(images), 'image')}, {', '.join(logs)}; {count} embedded now{note}{rate}"


def _shards(log: ProgressLog, images: Sequence[Image]) -> Iterator[Matrix]:
    for start in range(0, len(images), SHARD_ROWS):
        yield log.gather(image.digest for image in images[start : start + SHARD_ROWS])


def embed_new_images(
    images: Sequence[Image], views: Sequence[str], settings: EmbeddingSettings, *, store: EmbeddingStore, model: str
) -> dict[str, Matrix]:
    """Return the rows (n, d) by view of images that are in no manifest, embedded exactly as the rows of a store.

    An image of the store gets the same row as there. Raise StoreError if the backbone or view settings differ from the
    store's. ``model`` is the model's key in suite.yaml, for messages.
    """
    embedder = ImageEmbedder.build(settings)
    model_label = f"models.{model} ({settings.backbone.origin})"
    require_matching_store(store, embedder.encoder, settings, views, model_label)
    by_digest: dict[str, dict[bytes, Matrix]] = {view: {} for view in views}
    batches = plan_batches(images, views, embedder.batch_size)
    with Progress("embed", sum(len(batch.images) for batch in batches)) as bar:
        for batch, embedded in embedder.embed(batches):
            for view, rows in embedded.items():
                by_digest[view].update(zip(batch.digests, rows, strict=True))
            bar.update(len(batch.images))
    result = {view: np.stack([rows[image.digest] for image in images]) for view, rows in by_digest.items()}
    for rows in result.values():
        bad = ~np.isfinite(rows).all(axis=1)
        if bad.any():
            path = images[int(bad.argmax())].path
            raise ModelError(f"{path}: {model_label} gives it an embedding that is not finite")
    return result
