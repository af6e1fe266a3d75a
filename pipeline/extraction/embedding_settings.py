"""Describe how embeddings are made: the backbone, the view's settings and the version of the extraction.

Rows made with different settings are never mixed, neither in a resumed progress log nor between a store and new images.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from pipeline.encoders.backbone import Backbone
from pipeline.errors import ParamsError, StoreError
from pipeline.method.views import VIEW_INFO
from pipeline.store.embedding_store import EmbeddingStore, Provenance, shortened

if TYPE_CHECKING:
    from pipeline.encoders.image_encoder import ImageEncoder
    from pipeline.method.frequency_views import ViewSettings

# Version of stage `embed` and of the rows in its progress log. Increase it if the same image, weights and settings give
# rows that differ by more than the rounding of another processor (tests/stages/record_golden.py). Only then are
# features extracted again.
ROWS_VERSION = 3


@dataclass(frozen=True)
class EmbeddingSettings:
    """Settings of an extraction: the first two determine the rows, the others only the speed."""

    backbone: Backbone
    views: ViewSettings  # of the frequency-aware views
    device: str = "auto"  # ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``
    batch_size: int = 64  # images per forward pass on an accelerator
    workers: int = 0  # threads; 0: one per core
    compile: bool = False  # use torch.compile on an accelerator


def views_in_both(domain: str, domain_views: Sequence[str], model: str, model_views: Sequence[str]) -> tuple[str, ...]:
    """Return the views that both a domain and a model list, in the domain's order.

    Examples
    --------
    >>> views_in_both("mnist", ["original", "zeros"], "vit", ["zeros", "rand", "original"])
    ('original', 'zeros')
    """
    views = tuple(view for view in domain_views if view in model_views)
    if not views:
        raise ParamsError(
            f"domains.{domain}.views has {', '.join(domain_views)} and models.{model}.views "
            f"{', '.join(model_views)}: no view is in both; add one of the domain's to the model's"
        )
    return views


def settings_of_view(view: str, settings: object) -> dict[str, Any]:
    """Return only the settings that a view depends on: a change of noise does not affect ``zeros``.

    ``settings`` are `ViewSettings` or the section `views` of params.yaml.
    """
    return {name: getattr(settings, name) for name in VIEW_INFO[view].settings}


def backbone_identity(encoder: ImageEncoder) -> Provenance:
    """Return the provenance of a backbone in a store: model, weights, preprocessing and precision."""
    return {
        "model": encoder.description,
        "weights": encoder.fingerprint,
        "preprocessing": to_jsonable_python(encoder.preprocessing),
        "precision": encoder.precision,
    }


def row_key(encoder: ImageEncoder, settings: EmbeddingSettings, view: str) -> str:
    """Return a key that is unique to rows of ``view`` made by this encoder with these settings."""
    identity = {
        **backbone_identity(encoder),
        "view": view,
        "settings": settings_of_view(view, settings.views),
        "stored_as": settings.backbone.stored_as,
        "version": ROWS_VERSION,
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]


def require_matching_store(
    store: EmbeddingStore, encoder: ImageEncoder, settings: EmbeddingSettings, views: Sequence[str], model: str
) -> None:
    """Raise StoreError if a store was made by another encoder or with other settings; name both in the message."""
    for key, current in backbone_identity(encoder).items():
        stored = store.provenance.get(key)
        if stored != json.loads(json.dumps(current)):
            raise StoreError(
                f"{model}: its {key} now ({shortened(current)}) differs from that of {store.path} "
                f"({shortened(stored)}); put the former model back, or run dvc repro to extract the features again"
            )
    for view in views:
        current = settings_of_view(view, settings.views)
        if store.settings(view) != current:
            raise StoreError(
                f"{store.path}/{view}: made with {store.settings(view)}, but the section `views` of params.yaml "
                f"says {current}; run dvc repro, or put the section back"
            )
