"""The random Fourier bases of a source domain, one per seed, as recipes from which they are drawn."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Literal

from pipeline.method.backbone_weights import chosen_weights
from pipeline.method.random_fourier_features import Convention, median_bandwidth
from pipeline.method.rows import as_array, take
from pipeline.problem.domain import LabelledDomain
from pipeline.store.basis_file import BasisRecipe

Weights = tuple[float, ...]  # of the vision models


def basis_recipe(
    source: LabelledDomain,
    *,
    D: int,
    sigma: float,
    convention: Convention | Literal["median"],
    orthogonal: bool = False,
    map_seeds: Callable[[Callable[[int], Weights], range], Iterable[Weights]] = map,
) -> BasisRecipe:
    """Return the recipe of every seed's basis.

    The source's embeddings give the widths and, under ``median``, its train rows the bandwidth: ``sigma`` times the
    median distance of two. Its labels are read where several vision models are joined, to choose their weights:
    ``map_seeds`` applies a function to the numbers 0 to S - 1 of the seeds there. The target is never looked at: a
    basis is fixed before the first target task.
    """
    rows = source.vision_rows("original")
    medians = [1.0] * len(source.seeds)
    if convention == "median":
        medians = [median_bandwidth(take(rows, source.train_index(seed))) for seed in source.seeds]
    recipe = BasisRecipe(
        d=source.vision.width,
        D=D,
        convention="bandwidth" if convention == "median" else convention,
        orthogonal=orthogonal,
        seeds=tuple(source.seeds),
        sigmas=tuple(sigma * median for median in medians),
        d_clip=source.clip.width,
        asked_convention=convention,
        asked_sigma=sigma,
    )
    widths = source.vision.model_widths
    if len(widths) == 1:
        return recipe
    weights = map_seeds(partial(_weights, source, recipe), range(len(source.seeds)))
    return replace(recipe, widths=widths, weights=tuple(weights))


def _weights(source: LabelledDomain, recipe: BasisRecipe, index: int) -> Weights:
    """Return the weights of several vision models that a seed's source train images choose."""
    train = source.train_index(recipe.seeds[index])
    return chosen_weights(
        recipe.draw_unweighted(index),
        as_array(take(source.vision_rows("original"), train)),
        source.vision.model_widths,
        source.labels[train],
        as_array(take(source.clip_rows, train)),
    )
