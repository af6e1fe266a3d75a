"""REFEREE's own variants, ablations and reference rows as compared methods, sharing the source fit."""

from __future__ import annotations

from dataclasses import replace

from pipeline.comparison.problem import ComparedMethod, Group, SeedProblem
from pipeline.errors import InputError, listed
from pipeline.method.adaptation import PseudoLabels, pseudo_label, run_problem
from pipeline.method.class_statistics import Labels
from pipeline.method.joint_rows import kernel_features
from pipeline.method.prediction import predict
from pipeline.method.source_model import SourceModel, fit_source
from pipeline.method.variants import CALIBRATED, MethodOptions, variant

TITLES: dict[str, tuple[str, Group]] = {
    "clip_zero_shot": ("CLIP zero-shot", "reference"),
    "source_only": ("source model only", "reference"),
    "nearest_mean": ("nearest source mean", "reference"),
    "no_clip": ("without CLIP", "ablation"),
    "no_augmentation": ("without augmentation", "ablation"),
    "no_weighting": ("without weighting", "ablation"),
    "paper": ("REFEREE as printed", "referee"),
    "released": ("REFEREE as released", "referee"),
    "calibrated": ("REFEREE calibrated", "referee"),
}


def referee_variant(name: str) -> ComparedMethod:
    """Return a variant by its name as a compared method."""
    title, group = TITLES.get(name, (name, "referee"))
    return ComparedMethod(lambda problem: run_variant(problem, variant(name)), title, group)


def run_variant(problem: SeedProblem, options: MethodOptions) -> list[Labels]:
    """Return the classes predicted after each task under ``options``."""
    check_views(problem, options)
    sources = source_models(problem, options)
    share, test = options.clip_in_kernel, problem.test
    features = problem.shared(
        ("test features", share),
        lambda: kernel_features(problem.basis, test.views, test.clip, share),
    )
    classifiers = [None] * len(sources)
    if options.predictor == "adapted":
        adapted = run_problem(problem.basis, problem.target, sources, options, problem.clip_scale)
        classifiers = [task.classifier for task in adapted]  # type: ignore[misc]
    return [
        predict(
            features,
            problem.test.cosines,
            source=source,
            classifier=classifier,
            options=options,
            clip_scale=problem.clip_scale,
        ).label
        for source, classifier in zip(sources, classifiers, strict=True)
    ]


def check_views(problem: SeedProblem, options: MethodOptions) -> None:
    """Refuse a problem whose target was not embedded in a view that the options ask for."""
    there = problem.target[0].views
    absent = [view for view in options.views if view not in there]
    if absent and options.predictor == "adapted":
        raise InputError(
            f"the target has no view {listed(absent)}: add it to the domain's views in params.yaml, "
            "or leave the method out of compare.methods"
        )


def source_models(problem: SeedProblem, options: MethodOptions) -> list[SourceModel]:
    """Return the source model after each task; variants that fit the source alike share it."""
    key = ("source", _of_source(options))
    return problem.shared(
        key,
        lambda: fit_source(
            problem.basis,
            problem.source.views,
            problem.source.labels,
            problem.tasks,
            options,
            clip=problem.source.clip,
        ),
    )


def _of_source(options: MethodOptions) -> MethodOptions:
    """Return the options that the source fit depends on, all others at their defaults."""
    return replace(
        CALIBRATED,
        views=options.views_of_source,
        statistics=options.statistics if options.statistics == "batch_centred" else "exact",
        batch_images=options.batch_images,
        divide_scatter=options.divide_scatter,
        source_ridge=options.source_ridge,
        ridge_kind=options.ridge_kind,
        shrinkage=options.shrinkage,
        inverse=options.inverse,
        arithmetic=options.arithmetic,
        class_priors=options.class_priors,
        clip_in_kernel=options.clip_in_kernel,
    )


def first_labels(problem: SeedProblem) -> list[PseudoLabels]:
    """Return the first pseudo-labels of `calibrated` for each task: what pseudo-labelled peers are fitted to.

    The same labels for every peer, so that a table compares classifiers and not labellers.
    """
    options = CALIBRATED

    def label() -> list[PseudoLabels]:
        return [
            pseudo_label(problem.basis, task, source.classifier, options, problem.clip_scale)
            for task, source in zip(problem.target, source_models(problem, options), strict=True)
        ]

    return problem.shared("first labels", label)
