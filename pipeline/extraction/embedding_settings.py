"""What decides an embedding, as plain values: the backbone, the view's settings and the version of the extraction.

Rows made in another way are never mixed: not in a progress log that is taken up again, and not between a store and new
images.
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
from pipeline.method.views import ABOUT
from pipeline.store.embedding_store import EmbeddingStore, Provenance, short

if TYPE_CHECKING:
    from pipeline.encoders.image_encoder import ImageEncoder
    from pipeline.method.frequency_views import ViewSettings

# The version of stage `embed` and of the rows in its progress log. Raise it when the same image, weights and settings
# give other rows, by more than the rounding of another processor (tests/stages/record_golden.py): then, and only then,
# features are extracted again.
ROWS_VERSION = 3


@dataclass(frozen=True)
class EmbeddingSettings:
    """How images become rows: the first two decide the rows, the others only how fast they come."""

    backbone: Backbone
    views: ViewSettings  # how the frequency-aware views are made
    device: str = "auto"  # ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``
    batch_size: int = 64  # images of a forward pass on an accelerator
    workers: int = 0  # threads; 0: one per core
    compile: bool = False  # by torch.compile, on an accelerator


def views_in_both(domain: str, domain_views: Sequence[str], model: str, model_views: Sequence[str]) -> tuple[str, ...]:
    """Return the views that a domain asks for and a model gives, in the domain's order.

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
    """Return the settings that a view depends on, and no others: a change of noise leaves ``zeros`` alone.

    ``settings`` are `ViewSettings`, or the section `views` of params.yaml.
    """
    return {name: getattr(settings, name) for name in ABOUT[view].settings}


def backbone_identity(encoder: ImageEncoder) -> Provenance:
    """Return what a store keeps of its backbone: model, weights, preprocessing and precision."""
    return {
        "model": encoder.description,
        "weights": encoder.fingerprint,
        "preprocessing": to_jsonable_python(encoder.preprocessing),
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
    return hashlib.sha256(json.dumps(how, sort_keys=True).encode()).hexdigest()[:32]


def require_rows_of(
    store: EmbeddingStore, encoder: ImageEncoder, settings: EmbeddingSettings, views: Sequence[str], model: str
) -> None:
    """Raise a `StoreError` that names both sides where ``encoder`` and ``settings`` are not those that made a store."""
    for key, today in backbone_identity(encoder).items():
        stored = store.provenance.get(key)
        if stored != json.loads(json.dumps(today)):
            raise StoreError(
                f"{model}: its {key} today ({short(today)}) differs from what {store.path} was made with "
                f"({short(stored)}); put the former model back, or run dvc repro to make the features anew"
            )
    for view in views:
        today = settings_of_view(view, settings.views)
        if store.settings(view) != today:
            raise StoreError(
                f"{store.path}/{view}: made with {store.settings(view)}, but the section `views` of params.yaml "
                f"says {today}; run dvc repro, or put the section back"
            )
