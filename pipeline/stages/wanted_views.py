"""Which views of a domain a model embeds, and the settings each depends on."""

from __future__ import annotations

from typing import Any

from pipeline.errors import ParamsError
from pipeline.params import Domain, Model, Views


def wanted_views(domain: Domain, model: Model) -> tuple[str, ...]:
    """Return the views that the domain asks for and the model gives, in the domain's order."""
    views = tuple(view for view in domain.views if view in model.views)
    if not views:
        raise ParamsError(
            f"views: the domain asks for {domain.views}, the model gives {model.views}: nothing is left"
        )
    return views


def view_settings(view: str, chosen: Views) -> dict[str, Any]:
    """Return the settings that ``view`` depends on, and no others: a change of noise leaves `zeros` alone."""
    if view == "original":
        return {}
    transform: dict[str, Any] = {"wavelet": chosen.wavelet, "level": chosen.level}
    return (
        transform if view == "zeros" else {**transform, "noise": chosen.noise, "seed": chosen.seed}
    )
