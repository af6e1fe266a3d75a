"""Fit a labelled source: choose the recipe of the random Fourier bases, draw a seed's basis and fit kernel LDA."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from pipeline.method.backbone_weights import chosen_weights, column_factors
from pipeline.method.kernel_directions import in_all_features
from pipeline.method.random_fourier_features import Convention, KernelError, kernel_error, median_bandwidth
from pipeline.method.rows import Matrix, RowReduction, as_array, take, unit_rows
from pipeline.method.source_model import SourceModel, fit_source
from pipeline.method.variants import MethodOptions
from pipeline.problem.domain import LabelledDomain
from pipeline.store.array_layout import ArrayLayout
from pipeline.store.basis_file import Bases, BasisRecipe
from pipeline.store.source_store import write_scatters

Weights = tuple[float, ...]  # one per vision model


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

    The source's embeddings give the widths. Under ``median``, its train rows give the bandwidth: ``sigma`` times the
    median distance of two rows. If several vision models are joined, its labels are read to choose their weights;
    ``map_seeds`` then applies a function to the indices 0 to S - 1 of the seeds. The target is never read, because a
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


def _weights(source: LabelledDomain, recipe: BasisRecipe, seed_index: int) -> Weights:
    """Return the weights of several vision models, chosen on a seed's source train images."""
    train = source.train_index(recipe.seeds[seed_index])
    return chosen_weights(
        recipe.draw_unweighted(seed_index),
        as_array(take(source.vision_rows("original"), train)),
        source.vision.model_widths,
        source.labels[train],
        as_array(take(source.clip_rows, train)),
    )


def draw_seed(
    seed_index: int, _: RowReduction, *, recipe: BasisRecipe, sample: Matrix
) -> tuple[str, float, KernelError]:
    """Return digest, gamma and kernel error of a seed's basis, on a sample of rows weighted as in the kernel."""
    basis = recipe.draw(seed_index)
    digest, gamma = recipe.digest(basis), basis.gamma
    if recipe.weights:
        sample = unit_rows(sample) * column_factors(recipe.widths, recipe.weights[seed_index])
        basis = recipe.draw_unweighted(seed_index)
    return digest, gamma, kernel_error(basis, sample)


def fit_seed(
    seed_index: int,
    reduce_rows: RowReduction,
    *,
    domain: LabelledDomain,
    bases: Bases,
    options: MethodOptions,
    views: Sequence[str],
    scatters: ArrayLayout | None,
) -> list[SourceModel]:
    """Write a seed's scatters to the open store and return its models after each task without the scatters.

    ``views`` are the views that enter the source statistics.
    """
    basis, train = bases.reduced(seed_index, options), domain.train_index(domain.seeds[seed_index])
    models = fit_source(
        basis,
        domain.views_at(train, views),
        domain.labels[train],
        domain.class_sets,
        options,
        clip=take(domain.clip_rows, train),
        reduce_rows=reduce_rows,
    )
    models_to_write = (replace(model, classifier=in_all_features(basis, model.classifier)) for model in models)
    return write_scatters(scatters, seed_index, models_to_write)
