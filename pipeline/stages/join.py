"""Stage `join@DOMAIN-…`: put the embeddings of two models side by side, for a kernel on several backbones.

Writes cache/embeddings/DOMAIN/NAME.zarr for an entry NAME of `joined` in suite.yaml. Each row is the unit row of an
image by the first model, followed by that of the second. Either may itself be joined. `source` chooses their weights.
"""

from typing import Any

import numpy as np

from pipeline import paths
from pipeline.errors import InputError, counted
from pipeline.method.backbone_weights import join_models, split_models
from pipeline.method.rows import BLOCK_IMAGES, Matrix
from pipeline.stage import Context, stage
from pipeline.store.embedding_store import SHARD_ROWS, EmbeddedView, EmbeddingStore, open_embeddings, write_embeddings


@stage(per=("domains", "joined"), reads=("joined",))
def join(context: Context, domain: str, name: str) -> str:
    """Write cache/embeddings/DOMAIN/NAME.zarr."""
    (entry,) = (entry for entry in context.params.joined if entry.name == name)
    first = open_embeddings(paths.embeddings(domain, entry.first))
    second = open_embeddings(paths.embeddings(domain, entry.second))
    second.require({"rows_digest": first.provenance["rows_digest"]})
    views = [view for view in first.views if view in second.views]
    if "original" not in views:
        raise InputError(f"{second.path}: has no view 'original' to join with {first.path}")
    parts = [*model_parts(entry.first, first), *model_parts(entry.second, second)]
    provenance = {
        "domain": domain,
        "model": {"library": "joined", "parts": parts},
        "rows_digest": first.provenance["rows_digest"],
    }
    rows = {view: joined_view(first, second, view) for view in views}
    write_embeddings(paths.embeddings(domain, name), rows, provenance)
    return f"{counted(first.rows, 'row')} of {', '.join(views)}, {first.width} + {second.width} wide"


def model_parts(name: str, store: EmbeddingStore) -> list[dict[str, Any]]:
    """Return name, width and backbone of each model whose columns are in a store."""
    model = store.provenance["model"]
    if model["library"] == "joined":
        return list(model["parts"])
    return [{"name": name, "width": store.width, **store.backbone}]


def joined_view(first: EmbeddingStore, second: EmbeddingStore, view: str) -> EmbeddedView:
    """Return a view's rows of both models side by side, with the settings of both."""
    dtype = np.result_type(first.dtype(view), second.dtype(view))

    def shard(start: int) -> Matrix:
        blocks = range(start, min(start + SHARD_ROWS, first.rows), BLOCK_IMAGES)
        return np.concatenate([block(first_row).astype(dtype) for first_row in blocks])

    def block(start: int) -> Matrix:
        models = [
            columns
            for store in (first, second)
            for columns in split_models(store.read(view, start, start + BLOCK_IMAGES), store.model_widths)
        ]
        return join_models(models)

    return EmbeddedView(
        first.rows,
        first.width + second.width,
        dtype.name,
        {"first": first.settings(view), "second": second.settings(view)},
        map(shard, range(0, first.rows, SHARD_ROWS)),
    )
