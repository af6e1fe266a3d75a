"""Predictions over a range of D and of sigma, for the sensitivity of the method to both.

Where a few directions count (`method/kernel_directions.py`), a run costs little and each D is one of its own.
Otherwise bases are nested: the first D columns of a wide basis are a basis of D features, and one pass over the source
at the largest such D serves all, each smaller D being a scaled sub-block of its statistics. Pseudo-labels differ from D
to D, and with them the target's statistics, which are each value's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from pipeline.comparison.referee_variants import check_views, kernel_basis, run_variant
from pipeline.method.adaptation import adapt_task, empty_statistics
from pipeline.method.kernel_rows import kernel_rows
from pipeline.method.prediction import predict
from pipeline.method.random_fourier_features import Basis
from pipeline.method.rows import Labels
from pipeline.method.source_model import model_of, source_statistics
from pipeline.method.task_statistics import ExactStatistics
from pipeline.method.variants import MethodOptions
from pipeline.problem.seed import Seed


def predictions_over_D(  # noqa: N802  the paper's name
    seed: Seed, widths: Sequence[int], options: MethodOptions
) -> dict[int, list[Labels]]:
    """Return what `run_variant` predicts for each D of ``widths``; the seed's basis has at least the largest."""
    seeds = {D: seed.with_basis(seed.basis.nested(D)) for D in widths}
    together = [D for D in widths if kernel_basis(seeds[D], options).width == D and _nests(options)]
    predicted = {D: run_variant(seeds[D], options) for D in widths if D not in together}
    if together:
        predicted |= _nested_predictions(seeds[max(together)], together, options)
    return {D: predicted[D] for D in widths}


def _nests(options: MethodOptions) -> bool:
    """Return whether the statistics of fewer columns are a block of those of more."""
    return options.statistics == "exact" and options.predictor == "adapted"


def _nested_predictions(
    seed: Seed, widths: Sequence[int], options: MethodOptions
) -> dict[int, list[Labels]]:
    """Return the predictions of each D, the source's statistics being those of the seed's basis, the widest."""
    check_views(seed, options)
    source, target = seed.source, seed.target
    bases = {D: seed.basis.nested(D) for D in widths}
    test = kernel_rows(seed.basis, target.test, options.clip_in_kernel)
    statistics = {D: empty_statistics(bases[D], options) for D in widths}
    predicted: dict[int, list[Labels]] = {D: [] for D in widths}
    fitted = source_statistics(
        seed.basis, source.views, source.labels, seed.tasks, options, clip=source.clip
    )
    for task, (widest, embedding_means) in zip(target.tasks, fitted, strict=True):
        exact = cast("ExactStatistics", widest)
        features = kernel_rows(seed.basis, task, options.clip_in_kernel)
        for D in widths:
            model = model_of(exact.nested(D), embedding_means, options, D)
            statistics[D], adapted = adapt_task(
                bases[D],
                statistics[D],
                task,
                None,
                source=model,
                options=options,
                clip_scale=target.clip_scale,
                features=features.nested(D),
            )
            prediction = predict(
                test.nested(D),
                target.test.cosines,
                source=model,
                classifier=adapted.classifier,
                options=options,
                clip_scale=target.clip_scale,
            )
            predicted[D].append(np.asarray(prediction.label))
    return predicted


def predictions_over_sigma(
    seed: Seed, sigmas: Sequence[float], options: MethodOptions, draw: Callable[[float], Basis]
) -> dict[float, list[Labels]]:
    """Return what `run_variant` predicts for each sigma, with the basis that ``draw(sigma)`` returns."""
    return {sigma: run_variant(seed.with_basis(draw(sigma)), options) for sigma in sigmas}
