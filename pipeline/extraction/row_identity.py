"""What decides an embedding: the backbone, the view's settings and the version of the extraction.

Rows made in another way are never mixed: not in a progress log that is taken up again, and not
between a store and new images.
"""

from __future__ import annotations

import json
from typing import Any

from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.errors import StoreError
from pipeline.extraction.embedding_settings import ROWS_VERSION, EmbeddingSettings
from pipeline.extraction.views import settings_of_view
from pipeline.store.embedding_store import EmbeddingStore, Provenance, digest_of


def backbone_identity(encoder: ImageEncoder) -> Provenance:
    """Return what a store keeps of its backbone: model, weights, preprocessing and precision."""
    return {
        "model": encoder.description,
        "weights": encoder.fingerprint,
        "preprocessing": encoder.preprocessing.as_attributes(),
        "precision": encoder.precision,
    }


def row_key(encoder: ImageEncoder, settings: EmbeddingSettings, view: str) -> str:
    """Return a name for rows of ``view`` made in exactly this way."""
    how = {
        **backbone_identity(encoder),
        "view": view,
        "settings": settings_of_view(view, settings.views),
        "stored_as": settings.backbone.stored_as,
        "version": ROWS_VERSION,
    }
    return digest_of(how)[:32]


def require_same_backbone(encoder: ImageEncoder, store: EmbeddingStore, model: str) -> None:
    """Raise a `StoreError` that names both sides where ``encoder`` is not the one that made a store."""
    for key, today in backbone_identity(encoder).items():
        stored = store.provenance.get(key)
        if stored != json.loads(json.dumps(today)):
            raise StoreError(
                f"{model}: its {key} today ({_short(today)}) differs from what {store.path} was made with "
                f"({_short(stored)}); put the former model back, or run dvc repro to make the features anew"
            )


def require_same_views(settings: EmbeddingSettings, store: EmbeddingStore, view: str) -> None:
    """Raise a `StoreError` where a view of a store was made with other settings."""
    today = settings_of_view(view, settings.views)
    if store.settings(view) != today:
        raise StoreError(
            f"{store.path}/{view}: made with {store.settings(view)}, but the section `views` of params.yaml "
            f"says {today}; run dvc repro, or put the section back"
        )


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 60 else text[:57] + "..."
