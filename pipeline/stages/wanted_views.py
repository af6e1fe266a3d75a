"""Which views of a domain a model embeds, and the settings each depends on."""

from __future__ import annotations

from typing import Any

from pipeline.errors import ParamsError
from pipeline.params import Params, Views


def wanted_views(params: Params, domain: str, model: str) -> tuple[str, ...]:
    """Return the views that the domain asks for and the model gives, in the domain's order."""
    asked, given = params.domains[domain].views, params.models[model].views
    views = tuple(view for view in asked if view in given)
    if not views:
        raise ParamsError(
            f"params.yaml: domains.{domain}.views has {', '.join(asked)} and models.{model}.views {', '.join(given)}: "
            f"no view is in both; add one of the domain's to the model's"
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
