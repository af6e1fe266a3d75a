"""Accuracy over D and over sigma: what each value would predict, with the work that values share done once.

Bases are nested, so one basis of the largest D serves all: features of a smaller D are scaled first columns, and the
source's moments scaled sub-blocks (one pass at the widest serves all). Pseudo-labels differ from D to
D, so the target's statistics are each value's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pipeline.comparison.problem import SeedProblem
from pipeline.comparison.referee_variants import check_views, run_variant
from pipeline.method.adaptation import Running, adapt_task, nothing_yet
from pipeline.method.class_statistics import Labels
from pipeline.method.joint_rows import kernel_features
from pipeline.method.prediction import predict
from pipeline.method.random_fourier_features import Basis
from pipeline.method.source_model import model_of, source_moments
from pipeline.method.variants import MethodOptions


def predictions_over_D(  # noqa: N802  the paper's name
    problem: SeedProblem, widths: Sequence[int], options: MethodOptions
) -> dict[int, list[Labels]]:
    """Return for each of ``widths`` the classes predicted after each task; the problem's basis is the widest."""
    check_views(problem, options)
    if options.statistics != "exact" or problem.basis.members > 1 or options.predictor != "adapted":
        return {
            D: run_variant(replace(problem, basis=problem.basis.nested(D), _shared={}), options)
            for D in widths
        }
    test, share = problem.test, options.clip_in_kernel
    largest = kernel_features(problem.basis, test.views, test.clip, share)
    tests = {D: largest.nested(D) for D in widths}
    running: dict[int, Running] = {D: nothing_yet(tests[D].basis, options) for D in widths}
    predicted: dict[int, list[Labels]] = {D: [] for D in widths}
    fitted = source_moments(
        problem.basis,
        problem.source.views,
        problem.source.labels,
        problem.tasks,
        options,
        clip=problem.source.clip,
    )
    for task, ((moments,), embedding_means) in zip(problem.target, fitted, strict=True):
        features = task.features(problem.basis, options)
        for D in widths:
            source = model_of([moments.nested(D)], embedding_means, options, overwrite=True)
            running[D], adapted = adapt_task(
                tests[D].basis,
                running[D],
                task,
                None,
                source=source,
                options=options,
                clip_scale=problem.clip_scale,
                features=features.nested(D),
            )
            after = predict(
                tests[D],
                problem.test.cosines,
                source=source,
                classifier=adapted.classifier,
                options=options,
                clip_scale=problem.clip_scale,
            )
            predicted[D].append(np.asarray(after.label))
    return predicted


def predictions_over_sigma(
    problem: SeedProblem,
    sigmas: Sequence[float],
    options: MethodOptions,
    basis_of: Callable[[float], Basis],
) -> dict[float, list[Labels]]:
    """Return for each of ``sigmas`` the classes predicted after each task; ``basis_of`` draws a sigma's basis."""
    return {
        sigma: run_variant(replace(problem, basis=basis_of(sigma), _shared={}), options)
        for sigma in sigmas
    }
