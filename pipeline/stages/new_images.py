"""Images that are in no manifest: found, read and embedded exactly as the pipeline does it with its own.

The same decoder, preprocessing, passes of the same size and stored type as `embed`, so that an image of the pipeline
gives the very row that its store holds. A backbone that is not the one of the stores is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.datasets.layouts import images_in, writable
from pipeline.encoders.image_decoding import IMAGE_SUFFIXES, decode, read_image
from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.errors import InputError, ModelError, StoreError
from pipeline.execution.extraction import Batch, Picture, extract, plan_batches, worker_count
from pipeline.execution.ordered_map import ordered_map
from pipeline.params import Params
from pipeline.stages.wanted_views import view_settings
from pipeline.store.embedding_store import EmbeddingStore

Matrix = npt.NDArray[np.floating]


def find_images(places: Iterable[Path]) -> list[Path]:
    """Return the files named, and of folders all image files at any depth, sorted; each once."""
    found: list[Path] = []
    for place in places:
        if place.is_dir():
            inside = images_in(place, IMAGE_SUFFIXES)
            if not inside:
                suffixes = " ".join(sorted(IMAGE_SUFFIXES))
                raise InputError(f"{place}: no image in this folder (looked for {suffixes})")
            found += inside
        elif place.exists():
            found.append(writable(place))
        else:
            raise InputError(f"{place}: no such file or folder; check the path")
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Read:
    """Which of the images can be used, and of the others one line each that says why not."""

    pictures: list[Picture]
    unreadable: dict[Path, str]


def read_images(paths: Sequence[Path], *, max_pixels: int, workers: int) -> Read:
    """Decode every image once, as the manifest does: better all complaints now than one after an hour."""

    def look(path: Path) -> Picture | str:
        try:
            return Picture(path, bytes.fromhex(read_image(path, max_pixels=max_pixels).sha256))
        except InputError as error:
            return str(error)

    count = worker_count(workers)
    looked = list(ordered_map(look, paths, workers=count, ahead=4 * count))
    return Read(
        [picture for picture in looked if isinstance(picture, Picture)],
        {path: why for path, why in zip(paths, looked, strict=True) if isinstance(why, str)},
    )


def embed_new(
    params: Params,
    model: str,
    store: EmbeddingStore,
    pictures: Sequence[Picture],
    views: Sequence[str],
) -> dict[str, Matrix]:
    """Return the rows (n, d) of ``pictures`` per view by a model of params.yaml, which must be the one of ``store``."""
    spec = params.models[model]
    if spec.library == "imported":
        raise ModelError(
            f"models.{model}: its embeddings were computed elsewhere (library: imported), so new images cannot be "
            "embedded here; embed them where those came from, and classify them with `referee export`"
        )
    import torch

    from pipeline.encoders.device import choose_device
    from pipeline.stages.backbones import build_image_encoder

    torch.set_num_threads(1)  # parallel over batches instead: see view_embedder
    encoder = build_image_encoder(spec, choose_device(params.runtime.device))
    require_same_backbone(encoder, store, f"models.{model} ({spec.origin})")
    for view in views:
        if store.settings(view) != view_settings(view, params.views):
            raise StoreError(
                f"{store.path}/{view}: made with {store.settings(view)}, but the section `views` of params.yaml "
                "says otherwise; run dvc repro, or put the section back"
            )
    rows = _embed(encoder, params, pictures, views, spec.stored_as)
    for made in rows.values():
        bad = ~np.isfinite(made).all(axis=1)
        if bad.any():
            path = pictures[int(bad.argmax())].path
            raise ModelError(f"{path}: models.{model} gives it an embedding that is not finite")
    return rows


def require_same_backbone(encoder: ImageEncoder, store: EmbeddingStore, named: str) -> None:
    """Raise where today's weights, architecture, preprocessing or precision are not those of the store."""
    today = {
        "weights": encoder.fingerprint,
        "model": encoder.description,
        "preprocessing": encoder.preprocessing.as_attributes(),
        "precision": encoder.precision,
    }
    for key, mine in today.items():
        made = store.provenance.get(key)
        if made != json.loads(json.dumps(mine)):
            raise StoreError(
                f"{named}: its {key} today ({_short(mine)}) differs from what {store.path} was made with "
                f"({_short(made)}); put the former model back, or run dvc repro to make the features anew"
            )


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 60 else text[:57] + "..."


def _embed(
    encoder: ImageEncoder,
    params: Params,
    pictures: Sequence[Picture],
    views: Sequence[str],
    dtype: str,
) -> dict[str, Matrix]:
    """Embed every different content once, in the pipeline's own batches; return rows in the order of ``pictures``."""
    import torch
    from tqdm import tqdm

    from pipeline.encoders.view_embedder import Prepared, ViewEmbedder
    from pipeline.method.frequency_views import ViewSettings

    settings = ViewSettings(**params.views.model_dump())
    embedder = ViewEmbedder(
        encoder, settings, device=encoder.device, rows=params.runtime.batch_size
    )
    made: dict[str, dict[bytes, Matrix]] = {view: {} for view in views}

    def crop(picture: Picture) -> npt.NDArray[np.uint8]:
        upright = encoder.preprocessing.upright
        image = decode(picture.path, expected_sha256=picture.digest.hex(), upright=upright)
        return encoder.preprocessing.crop(image)

    def load(batch: Batch) -> Prepared:
        crops = np.stack([crop(picture) for picture in batch.pictures])
        return embedder.prepare(crops, batch.digests, batch.views)

    def start(prepared: Prepared) -> Callable[[], dict[str, Matrix]]:
        return embedder.start(prepared, dtype)

    def record(batch: Batch, embedded: Any) -> None:
        for view, rows in embedded.items():
            made[view].update(zip(batch.digests, rows, strict=True))
        bar.update(len(batch.pictures))

    batches = plan_batches(pictures, views, lambda _view, _digest: False, embedder.rows)
    total = sum(len(batch.pictures) for batch in batches)
    with tqdm(total=total, unit=" images", disable=None, leave=False) as bar:
        extract(
            batches,
            load=load,
            start=start,
            record=record,
            workers=worker_count(params.runtime.workers),
            embed_in_workers=embedder.is_thread_parallel,
            initializer=partial(torch.set_num_threads, 1),
        )
    return {
        view: np.stack([rows[picture.digest] for picture in pictures])
        for view, rows in made.items()
    }
