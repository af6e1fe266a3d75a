"""Provide REFEREE's variants, ablations and reference rows as compared methods, which share equal source fits."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pipeline.comparison.compared_method import ComparedMethod, Group, rejecting_method
from pipeline.errors import InputError, listed
from pipeline.method.adaptation import Referee, adapt_tasks, pseudo_label
from pipeline.method.continual_metrics import Answers
from pipeline.method.fusion import PseudoLabels
from pipeline.method.kernel_directions import directions_kept, reduced
from pipeline.method.kernel_lda import Classifier
from pipeline.method.kernel_rows import kept_in_memory, no_sharing
from pipeline.method.prediction import Prediction, predict
from pipeline.method.prepared_tasks import PreparedTask, prepared_tasks
from pipeline.method.random_fourier_features import Basis
from pipeline.method.rejection import class_directions, rejector
from pipeline.method.rows import Labels, UnlabelledRows
from pipeline.method.source_model import SourceModel, fit_source
from pipeline.method.variants import CALIBRATED, VARIANTS, MethodOptions
from pipeline.problem.seed import Seed

# options that affect only adaptation and prediction; `source_views` acts through `views_of_source`
TARGET_ONLY = (
    *("predictor", "source_views", "ridge", "prior_count", "source_covariance", "logits", "use_clip"),
    *("clip_scale", "clip_classes_at_test", "fusion_adapt", "fusion_test", "threshold"),
    *("use_weights", "weight_floor", "rounds", "vote_views", "vote_at_test"),
    *("align_means", "neighbours", "reject"),
)
TITLES: dict[str, tuple[str, Group]] = {
    "clip_zero_shot": ("CLIP zero-shot", "reference"),
    "source_only": ("source model only", "reference"),
    "nearest_mean": ("nearest source mean", "reference"),
    "no_clip": ("without CLIP", "ablation"),
    "no_augmentation": ("without augmentation", "ablation"),
    "no_weighting": ("without weighting", "ablation"),
    "no_weight_floor": ("without a least weight", "ablation"),
    "no_alignment": ("without alignment", "ablation"),
    "no_neighbours": ("without neighbours", "ablation"),
    "no_votes": ("without votes of the views", "ablation"),
    "no_rounds": ("without rounds", "ablation"),
    "hard_labels": ("with hard labels", "ablation"),
    "clip_at_test": ("with CLIP at test", "ablation"),
    "paper": ("REFEREE as printed", "referee"),
    "released": ("REFEREE as released", "referee"),
    "calibrated": ("REFEREE calibrated", "referee"),
    "rejecting": ("REFEREE calibrated, rejecting", "referee"),
}


def referee_variant(name: str) -> ComparedMethod:
    """Return a variant (see `pipeline.method.variants`) as a compared method."""
    title, group = TITLES.get(name, (name, "referee"))
    options = VARIANTS[name]
    if options.reject != "none":
        return rejecting_method(lambda seed: rejecting_answers(seed, options), title, group)
    return ComparedMethod(lambda seed: run_variant(seed, options), title, group)


def run_variant(seed: Seed, options: MethodOptions) -> list[Labels]:
    """Adapt to a seed's tasks and return the predicted classes (n,) of the test rows after each task."""
    return predict_test(seed, options, adapted_classifiers(seed, options))


def rejecting_answers(seed: Seed, options: MethodOptions) -> list[Answers]:
    """Adapt to the images of a seed's tasks that are not rejected; return the test rows' answers after each task."""
    tasks, directions = prepared(seed, options), class_directions(source_models(seed, options)[-1].embedding_means)
    labels = predict_test(seed, options, adapted_classifiers(seed, options, tasks))
    answers = []
    for label, task in zip(labels, tasks, strict=True):
        assert task.rejection is not None  # noqa: S101  the options reject
        answers.append(rejector(task.rejection, directions).answers(label, seed.target.test))
    return answers


def prepared(seed: Seed, options: MethodOptions) -> list[PreparedTask]:
    """Return the seed's tasks without rejected images and, if classes are estimated, without absent classes."""
    sources = source_models(seed, options)
    return list(
        prepared_tasks(
            replace(referee_of(seed, options), shared=no_sharing),
            seed.target.tasks,
            sources,
            directions=None if options.reject == "none" else class_directions(sources[-1].embedding_means),
            estimate_classes=seed.target.estimate_classes,
        )
    )


def adapted_classifiers(
    seed: Seed, options: MethodOptions, tasks: Sequence[PreparedTask] | None = None
) -> list[Classifier | None]:
    """Return the target's classifier after each task, or None for reference rows, which do not adapt."""
    sources = source_models(seed, options)
    if options.predictor != "adapted":
        return [None] * len(sources)
    referee, images = referee_of(seed, options), [task.images for task in tasks or prepared(seed, options)]
    # shared results keep their images in memory, which costs nothing only for the seed's own tasks
    if any(left is not right for left, right in zip(images, seed.target.tasks, strict=True)):
        referee = replace(referee, shared=no_sharing)
    return [task.classifier for task in adapt_tasks(referee, images, sources)]


def predict_test(seed: Seed, options: MethodOptions, classifiers: Sequence[Classifier | None]) -> list[Labels]:
    """Return the predicted classes (n,) of the test rows after each task, given the classifier of each task."""
    after_tasks = zip(source_models(seed, options), classifiers, strict=True)
    return [prediction(seed, options, seed.target.test, *models).label for models in after_tasks]


def prediction(
    seed: Seed, options: MethodOptions, rows: UnlabelledRows, source: SourceModel, classifier: Classifier | None
) -> Prediction:
    """Return the prediction for rows of the seed's target by the models after a task."""
    referee = referee_of(seed, options)
    return predict(referee.features(rows), rows.cosines, source, classifier, options, referee.clip_scale)


def kernel_basis(seed: Seed, options: MethodOptions) -> Basis:
    """Return the seed's basis, reduced to the directions that the options keep; see `kernel_directions`."""
    d_clip = 0 if seed.basis.clip_omega is None else len(seed.basis.clip_omega)
    d = seed.basis.d + (d_clip if options.clip_in_kernel else 0)
    kept = directions_kept(d, seed.basis.D, seed.basis.largest_gamma, options)
    return seed.shared(("basis", d, kept), lambda: reduced(seed.basis, options))


def referee_of(seed: Seed, options: MethodOptions) -> Referee:
    """Return the method on a seed; it shares features if those of all rows fit in memory."""
    absent = [view for view in options.views if view not in seed.target.tasks[0].views]
    if absent and options.predictor == "adapted":
        raise InputError(
            f"the target has no view {listed(absent)}: add it to the domain's views in suite.yaml, "
            "or leave the method out of compare.methods in params.yaml"
        )
    basis = kernel_basis(seed, options)
    shared = seed.shared if all_kept_in_memory(seed, basis.width) else no_sharing
    return Referee(basis, options, seed.target.clip_scale, shared=shared)


def all_kept_in_memory(seed: Seed, D: int) -> bool:
    """Return whether D features of all rows are small enough to be kept in memory."""
    n = len(seed.source.labels) + sum(len(task) for task in seed.target.tasks)
    return kept_in_memory(n, len(seed.target.test.views), D)


def source_models(seed: Seed, options: MethodOptions) -> list[SourceModel]:
    """Return the source model after each task; variants with equal source options share one fit."""
    key = ("source", source_options(options), kernel_basis(seed, options).width)
    return seed.shared(key, lambda: list(fit(seed, options)))


def fit(seed: Seed, options: MethodOptions, **arguments: Any) -> Iterator[SourceModel]:
    """Fit the source of a seed under options; ``arguments`` are passed on to `fit_source`."""
    source, referee = seed.source, referee_of(seed, options)
    shared, fitted = referee.shared, source_options(options)
    return fit_source(
        referee.basis, source.views, source.labels, seed.tasks, fitted, clip=source.clip, shared=shared, **arguments
    )


def source_options(options: MethodOptions) -> MethodOptions:
    """Return the options with every option that the source fit does not read set to its default.

    The source fit is assumed to read any option that is not in `TARGET_ONLY`.
    """
    defaults: dict[str, Any] = {name: getattr(CALIBRATED, name) for name in TARGET_ONLY}
    statistics = "exact" if options.statistics == "printed" else options.statistics
    defaults |= {"responsibilities": "hard"}  # the source's labels are known
    if statistics == "task_centred":  # a scatter that is not pooled may be kept as rows, which are solved faster
        defaults["source_covariance"] = options.source_covariance
    return replace(options, **defaults, views=options.views_of_source, statistics=statistics)


def first_labels(seed: Seed) -> list[PseudoLabels]:
    """Return the first pseudo-labels of `calibrated`, one entry per task.

    All pseudo-labelled peers are fitted to these labels, so that a table compares classifiers and not labellers.
    """

    def label() -> list[PseudoLabels]:
        sources, referee = source_models(seed, CALIBRATED), referee_of(seed, CALIBRATED)
        return [pseudo_label(referee, task, source) for task, source in zip(seed.target.tasks, sources, strict=True)]

    return seed.shared("first labels", label)
