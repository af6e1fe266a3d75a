"""Which views are embedded or refined, and the settings that each depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipeline.errors import ModelError, ParamsError

if TYPE_CHECKING:
    from pipeline.method.frequency_views import ViewSettings


def views_in_both(domain: str, domain_views: Sequence[str], model: str, model_views: Sequence[str]) -> tuple[str, ...]:
    """Return the views that a domain asks for and a model gives, in the domain's order.

    Parameters
    ----------
    domain, model : str
        Keys of the two in params, for the message of the `ParamsError` if no view is in both.

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


def views_to_refine(domain: str, views: Sequence[str], model: str, library: str) -> tuple[str, ...]:
    """Return the views that refinement changes: all but the original.

    Parameters
    ----------
    domain, model : str
        Keys in params, for messages.
    views : sequence of str
        Views of the domain that the model embeds.
    library : str
        The model's library; an imported model has no backbone to refine with.
    """
    remedy = "set refinement.steps: 0 and refinement.mutual_attention: false"
    if library == "imported":
        raise ModelError(
            f"refinement: models.{model} is imported, so there is no backbone to refine views with; {remedy}"
        )
    refined = tuple(view for view in views if view != "original")
    if not refined:
        raise ParamsError(
            f"refinement: domains.{domain}.views has no view but the original; add zeros or rand, or {remedy}"
        )
    return refined


def settings_of_view(view: str, settings: ViewSettings) -> dict[str, Any]:
    """Return the settings that a view depends on, and no others: a change of noise leaves ``zeros`` alone."""
    if view == "original":
        return {}
    transform: dict[str, Any] = {"wavelet": settings.wavelet, "level": settings.level}
    if view == "zeros":
        return transform
    if view == "rand":
        return {**transform, "noise": settings.noise, "seed": settings.seed}
    raise ParamsError(f"views: which settings {view!r} depends on is not known; add it here")
