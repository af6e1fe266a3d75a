"""Embed images: those of a manifest through the progress log, and new ones that are in no manifest."""

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
    require_rows_of,
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

    views: dict[str, EmbeddedView]  # rows are read from the progress log when asked for
    backbone: Provenance  # see `backbone_identity`
    summary: str  # one line for people


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
    """Embed the images that the logs in the folder ``progress`` lack, and give access to the rows of all.

    A run that is killed goes on where it stopped and ends with the same bytes. ``writer`` is the name of this
    extraction: two processes must not extract the same at once. Without ``cluster`` this process embeds.
    """
    # With a cluster the workers embed; here the model only says which one it is.
    embedder = ImageEmbedder.build(settings, device="cpu" if cluster else None)
    encoder, dtype = embedder.encoder, settings.backbone.stored_as
    with ExitStack() as stack:
        folders = {view: progress / row_key(encoder, settings, view) for view in views}
        opened = {view: ProgressLog(at, writer, width=encoder.width, dtype=dtype) for view, at in folders.items()}
        logs = {view: stack.enter_context(log) for view, log in opened.items()}
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
    """Embed the rows that the logs lack, recording them batch by batch; return a summary."""
    # Rows of a private domain are in another order; images of one shard are read together.
    by_path = sorted(images, key=lambda image: str(image.path))
    batches = plan_batches(by_path, tuple(logs), embedder.batch_size, lambda view, digest: digest in logs[view])
    count = sum(len(batch.images) for batch in batches)
    began = time.perf_counter()
    if cluster:
        results = embed_on_cluster(cluster, embedder.settings, embedder.encoder.fingerprint, batches)
    else:
        results = embedder.embed(batches)
    with Progress("embed", count) as shown:
        for batch, embedded in results:
            for view, rows in embedded.items():
                logs[view].append(batch.digests, rows)
            shown.update(len(batch.images))
    where = f" on {cluster.address}" if cluster else ""
    rate = f" ({count / (time.perf_counter() - began):.0f} images/s{where})" if count else ""
    copies = len(images) - len({image.digest for image in images})
    once = f", of {counted(copies, 'copy')} one each" if copies and count else ""
    return f"{counted(len(images), 'image')}, {', '.join(logs)}; {count} embedded now{once}{rate}"


def _shards(log: ProgressLog, images: Sequence[Image]) -> Iterator[Matrix]:
    for start in range(0, len(images), SHARD_ROWS):
        yield log.gather(image.digest for image in images[start : start + SHARD_ROWS])


def embed_new_images(
    images: Sequence[Image], views: Sequence[str], settings: EmbeddingSettings, *, store: EmbeddingStore, model: str
) -> dict[str, Matrix]:
    """Return the rows (n, d), by view, of images that are in no manifest, embedded exactly as those of a store were.

    An image of the store gets the very row it has there; another backbone or other view settings are a `StoreError`.
    ``model`` is the model's key in suite.yaml, for messages.
    """
    embedder = ImageEmbedder.build(settings)
    named = f"models.{model} ({settings.backbone.origin})"
    require_rows_of(store, embedder.encoder, settings, views, named)
    found: dict[str, dict[bytes, Matrix]] = {view: {} for view in views}
    batches = plan_batches(images, views, embedder.batch_size)
    with Progress("embed", sum(len(batch.images) for batch in batches)) as shown:
        for batch, embedded in embedder.embed(batches):
            for view, rows in embedded.items():
                found[view].update(zip(batch.digests, rows, strict=True))
            shown.update(len(batch.images))
    result = {v: np.stack([rows[image.digest] for image in images]) for v, rows in found.items()}
    for rows in result.values():
        bad = ~np.isfinite(rows).all(axis=1)
        if bad.any():
            path = images[int(bad.argmax())].path
            raise ModelError(f"{path}: {named} gives it an embedding that is not finite")
    return result
