"""Embed a domain's images with a backbone: what is in the progress logs is kept, the rest goes through the model."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from pipeline.datasets.manifest_files import ImageRow
from pipeline.encoders import (
    clip_config,
    clip_encoder,
    clip_weights,
    device,
    image_decoding,
    image_encoder,
    native,
    normalised_views,
    preprocessing,
    resample,
    timm_encoder,
    view_embedder,
)
from pipeline.encoders.device import choose_device
from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.execution.cluster import Cluster
from pipeline.execution.extraction import Embedded, Picture, plan_batches, worker_count
from pipeline.method import frequency_views, image_noise, wavelet_transform
from pipeline.params import Model, Params
from pipeline.stages import places
from pipeline.stages.backbones import build_image_encoder
from pipeline.stages.embed_block import Backbone, BlockEmbedder, embed_block
from pipeline.stages.embed_on_cluster import embed_on_cluster
from pipeline.stages.wanted_views import view_settings, wanted_views
from pipeline.store.code_fingerprint import code_fingerprint
from pipeline.store.embedding_store import (
    SHARD_ROWS,
    Provenance,
    ViewRows,
    digest_of,
    rows_digest,
    write_embeddings,
)
from pipeline.store.progress_log import ProgressLog

# What, besides weights and settings, decides an embedding: rows made by other code are not taken up again.
DECIDING_CODE = (
    clip_config,
    clip_encoder,
    clip_weights,
    device,
    frequency_views,
    image_decoding,
    image_encoder,
    image_noise,
    native,
    normalised_views,
    preprocessing,
    resample,
    timm_encoder,
    view_embedder,
    wavelet_transform,
)
DECIDING_LIBRARIES = ("torch", "timm", "open_clip_torch", "pillow", "pywavelets", "numpy")


def embed_images(
    params: Params, domain: str, model: str, images: list[ImageRow], cluster: Cluster | None
) -> str:
    """Embed what is not in the progress logs, then write the store from them; return what to tell."""
    spec = params.models[model]
    torch.set_num_threads(1)  # parallel over batches instead: see view_embedder
    # with a cluster the workers embed; here the model only says who it is
    where = "cpu" if cluster else params.runtime.device
    encoder = build_image_encoder(spec, choose_device(where))
    return embed_with(encoder, params, domain, model, images, cluster=cluster)


def embed_with(
    encoder: ImageEncoder,
    params: Params,
    domain: str,
    model: str,
    images: list[ImageRow],
    *,
    cluster: Cluster | None = None,
) -> str:
    """Do so with a backbone that is built already."""
    spec = params.models[model]
    identity = _identity(encoder, spec)
    pictures = [Picture(Path(image.path), bytes.fromhex(image.sha256)) for image in images]
    views = {
        view: view_settings(view, params.views) for view in wanted_views(params, domain, model)
    }
    with ExitStack() as stack:
        logs = {}
        for view, made_with in views.items():
            folder = places.PROGRESS / _log_key(identity, view, made_with, spec.stored_as)
            log = ProgressLog(
                folder, f"{domain}-{model}", width=encoder.width, dtype=spec.stored_as
            )
            logs[view] = stack.enter_context(log)
        told = _fill(logs, pictures, cluster, encoder=encoder, spec=spec, params=params)
        rows = {
            view: ViewRows(
                len(pictures), encoder.width, spec.stored_as, views[view], _shards(log, pictures)
            )
            for view, log in logs.items()
        }
        digest = rows_digest(image.sha256 for image in images)
        provenance = {"domain": domain, **identity, "rows_digest": digest}
        write_embeddings(places.embeddings(domain, model), rows, provenance)
    return told


def _identity(encoder: ImageEncoder, spec: Model) -> Provenance:
    return {
        "model": encoder.description,
        "weights": encoder.fingerprint,
        "preprocessing": encoder.preprocessing.as_attributes(),
        "precision": spec.precision,
    }


def _log_key(identity: Provenance, view: str, made_with: Provenance, stored_as: str) -> str:
    """Return the name of the folder of rows made in exactly this way."""
    code = {
        "pipeline": code_fingerprint(DECIDING_CODE),
        "compiled": native.source_digest(Path(native.__file__).parent),
    }
    code |= {library: version(library) for library in DECIDING_LIBRARIES}
    how = {**identity, "view": view, "settings": made_with, "stored_as": stored_as, "code": code}
    return digest_of(how)[:32]


def _fill(
    logs: Mapping[str, ProgressLog],
    pictures: list[Picture],
    cluster: Cluster | None,
    *,
    encoder: ImageEncoder,
    spec: Model,
    params: Params,
) -> str:
    """Embed the rows that the logs lack, here or on a cluster, recording batch by batch; return what to tell."""
    runtime = params.runtime
    here = BlockEmbedder.of(encoder, spec, params.views, runtime.batch_size)
    batches = plan_batches(
        pictures, tuple(logs), lambda view, digest: digest in logs[view], here.embedder.rows
    )
    todo = sum(len(batch.pictures) for batch in batches)

    def record(digests: list[bytes], embedded: Embedded) -> None:
        for view, rows in embedded.items():
            logs[view].append(digests, rows)
        bar.update(len(digests))

    began = time.perf_counter()
    with tqdm(total=todo, unit=" images", disable=None, smoothing=0.05) as bar:
        if cluster:
            backbone = Backbone.of(spec, params.views, runtime, encoder.fingerprint)
            embed_on_cluster(cluster, partial(embed_block, backbone), batches, record)
        else:
            threads = worker_count(runtime.workers)
            here.run(batches, lambda batch, rows: record(batch.digests, rows), threads)
    where = f" on {cluster.address}" if cluster else ""
    rate = f" ({todo / (time.perf_counter() - began):.0f} images/s{where})" if todo else ""
    return f"{len(pictures)} images, {', '.join(logs)}; {todo} embedded now{rate}"


def _shards(log: ProgressLog, pictures: list[Picture]) -> Iterator[npt.NDArray[np.floating]]:
    for start in range(0, len(pictures), SHARD_ROWS):
        yield log.gather(picture.digest for picture in pictures[start : start + SHARD_ROWS])
