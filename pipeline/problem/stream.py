"""A step of a stream: the state of the step before, this step's unlabelled images, and the source's model.

`open_step` reads and checks; `adapt_step` computes. Classes are numbered in the order in which the stream meets them:
the method sees what it sees in a benchmark, classes 0 … K−1, of which the step's images have some. Neither reaches an
image, a row or a label of an earlier step, nor a label of this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline import paths
from pipeline.datasets.manifest_files import read_images, rows_digest
from pipeline.errors import ParamsError, StoreError, did_you_mean, listed
from pipeline.method.adaptation import adapt_task, empty_statistics
from pipeline.method.fusion import fuse
from pipeline.method.kernel_directions import lifted, lowered
from pipeline.method.kernel_lda import Classifier
from pipeline.method.kernel_rows import KernelRows, kernel_rows
from pipeline.method.prediction import Prediction, klda_probabilities
from pipeline.method.random_fourier_features import Basis
from pipeline.method.row_reduction import RowReduction
from pipeline.method.rows import LabelledRows, TargetTask, Vector64, take
from pipeline.method.source_model import SourceModel
from pipeline.method.task_statistics import ExactStatistics, LabelledTask
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import CosineRows, clip_probabilities
from pipeline.problem.adapted_model import options_as_json
from pipeline.problem.corrections import read_corrections
from pipeline.problem.domain import Domain
from pipeline.store.basis_file import Bases, read_bases
from pipeline.store.prompt_store import Prompts
from pipeline.store.source_store import (
    read_backbones,
    read_source_after,
    read_source_classes,
)
from pipeline.store.stream_state import StreamOrigin, StreamState, read_stream_state

Index = npt.NDArray[np.intp]


@dataclass(frozen=True)
class StepSettings:
    """What suite.yaml says of a step, see `pipeline.params.Step`; ``classes`` and ``step_before`` may be None."""

    name: str
    source: str
    classes: tuple[str, ...] | None
    step_before: str | None
    corrections: Path
    correction_weight: float
    source_task: int | None


@dataclass(frozen=True, eq=False)
class OpenedStep:
    """All that a step reads, checked.

    Attributes
    ----------
    settings : StepSettings
    domain : Domain
        The step's images, unlabelled.
    options : MethodOptions
    origin : StreamOrigin
        What the state will rest on.
    before : StreamState, optional
        The state of the step before; None for a first step.
    basis : Basis
    order : tuple of str
        The K classes seen with this step, in the order in which the stream met them.
    classes : ndarray of shape (c,)
        Positions in ``order`` of the classes that the images may have, ascending.
    source : SourceModel
        Of the classes of ``order``.
    images : list of str
        The n paths, in the order of the rows.
    corrected : mapping of int to int
        Row number to position in ``order`` of the images that a person looked at.
    """

    settings: StepSettings
    domain: Domain
    options: MethodOptions
    origin: StreamOrigin
    before: StreamState | None
    basis: Basis
    order: tuple[str, ...]
    classes: Index
    source: SourceModel
    images: list[str]
    corrected: Mapping[int, int]

    @cached_property
    def prompts(self) -> Prompts:
        """Text embeddings of the classes of ``order``, then of the domain's other classes."""
        return ordered_prompts(self.domain.prompts, self.order)

    def task(self, index: Index) -> TargetTask:
        """Return what the method may see of the images at ``index``."""
        clip_rows = take(self.domain.clip_rows, index)
        rows: CosineRows | npt.NDArray[np.float64] = CosineRows(clip_rows, self.prompts.text)
        if not self.domain.lazy:
            rows = rows[np.arange(len(rows))]
        views = self.domain.views_at(index, self.options.views)
        return TargetTask(views, rows, clip_rows, classes=self.classes)


@dataclass(frozen=True, eq=False)
class StepResult:
    """What a step computes.

    Attributes
    ----------
    statistics : ExactStatistics
        Of all images of all steps so far.
    classifier : Classifier
    prediction : Prediction
        What the new classifier says of the step's n images, over the c classes of the step.
    weight : ndarray of shape (n,)
        With which each image entered the statistics.
    """

    statistics: ExactStatistics
    classifier: Classifier
    prediction: Prediction
    weight: Vector64


def ordered_prompts(prompts: Prompts, order: Sequence[str]) -> Prompts:
    """Return the same prompts with the classes of ``order`` first, then the others."""
    names = [*order, *(name for name in prompts.classes if name not in order)]
    position = {name: index for index, name in enumerate(prompts.classes)}
    index = [position[name] for name in names]
    provenance = {**prompts.provenance, "classes": names}
    sentences = prompts.provenance.get("prompts")
    if sentences is not None:  # imported texts have none
        each = len(sentences) // len(names)
        provenance["prompts"] = [
            text for i in index for text in sentences[i * each : (i + 1) * each]
        ]
    return Prompts(prompts.text[index], prompts.logit_scale, provenance)


def open_step(settings: StepSettings, domain: Domain, options: MethodOptions) -> OpenedStep:
    """Read all that a step reads.

    Parameters
    ----------
    settings : StepSettings
    domain : Domain
        The step's images.
    options : MethodOptions

    Returns
    -------
    OpenedStep

    Raises
    ------
    RefereeError
        One line that names both sides where the state of the step before rests on something else than this step.
    """
    if options.statistics != "exact":
        raise ParamsError(
            f"params.yaml: method: statistics: {options.statistics} cannot be continued from a file; "
            "a stream needs sums that add: choose method.variant: calibrated"
        )
    model_path = paths.source_model(settings.source)
    backbones = read_backbones(model_path)
    domain.vision.require_backbone(backbones.get("vision", {}), model_path)
    domain.clip.require_backbone(backbones.get("language", {}), model_path)
    bases = read_bases(paths.bases(settings.source))
    origin = StreamOrigin(
        settings.source, basis_facts(bases), options_as_json(options), dict(backbones)
    )
    before = None
    if settings.step_before is not None:
        before = read_stream_state(paths.stream_state(settings.step_before))
        require_same_origin(before, origin, domain)
    task = None if settings.source_task is None else settings.source_task - 1
    whole = read_source_after(model_path, 0, task)
    known = read_source_classes(model_path)[: len(whole.means)]
    seen = () if before is None else before.classes
    step_classes = classes_of_step(settings, known, domain)
    order = (*seen, *(name for name in step_classes if name not in seen))
    require_known(settings, seen, known, domain)
    images = image_paths(domain)
    position = {name: index for index, name in enumerate(order)}
    corrections = read_corrections(settings.corrections, images, step_classes)
    basis = bases.reduced(0, options)
    source = restricted(whole, [known.index(name) for name in order], options)
    return OpenedStep(
        settings=settings,
        domain=domain,
        options=options,
        origin=origin,
        before=before,
        basis=basis,
        order=order,
        classes=np.array(sorted(position[name] for name in step_classes), dtype=np.intp),
        source=replace(source, classifier=lowered(basis, source.classifier)),
        images=images,
        corrected={row: position[name] for row, name in corrections.items()},
    )


def basis_facts(bases: Bases) -> dict[str, Any]:
    """Return which basis a stream uses: that of the first seed."""
    recipe = bases.recipe
    return {
        "D": recipe.D,
        "sigma": recipe.asked_sigma,
        "convention": recipe.asked_convention,
        "orthogonal": recipe.orthogonal,
        "seed": recipe.seeds[0],
        "sha256": bases.digests[0],
    }


def require_same_origin(before: StreamState, origin: StreamOrigin, domain: Domain) -> None:
    """Refuse the state of a step before that rests on something else than this step, naming both sides."""
    path = paths.stream_state(before.step)

    def refuse(what: str, found: object, now: object) -> StoreError:
        return StoreError(
            f"{path}: made with {what} = {found!r}, this step has {now!r}; put it back, or run dvc repro where "
            "the earlier images are, or start another stream"
        )

    for key, value in origin.basis.items():
        if before.origin.basis.get(key) != value:
            what = "the basis" if key == "sha256" else "seed" if key == "seed" else f"rff.{key}"
            raise refuse(what, before.origin.basis.get(key), value)
    for key, value in origin.method.items():
        if before.origin.method.get(key) != value:
            raise refuse(f"method option {key}", before.origin.method.get(key), value)
    domain.vision.require_backbone(before.origin.backbones.get("vision", {}), path)
    domain.clip.require_backbone(before.origin.backbones.get("language", {}), path)
    absent = [name for name in before.classes if name not in domain.class_names]
    if absent:
        raise StoreError(
            f"{path}: knows the class {absent[0]!r}, for which {domain.name} has no prompt; add it to the "
            "class_names of its dataset"
        )
    now = ordered_prompts(domain.prompts, before.classes)
    for key in ("weights", "prompts"):
        found, given = before.prompts.provenance.get(key), now.provenance.get(key)
        if key == "prompts" and found and given:  # of the classes that the stream has met
            found, given = (
                texts[: len(texts) // len(prompts.classes) * len(before.classes)]
                for texts, prompts in ((found, before.prompts), (given, now))
            )
            pairs = zip(found, given, strict=False)
            found, given = next(((a, b) for a, b in pairs if a != b), (len(found), len(given)))
        if found != given:
            raise refuse(
                f"{key} of the text tower" if key == "weights" else "the prompt", found, given
            )


def classes_of_step(settings: StepSettings, known: Sequence[str], domain: Domain) -> list[str]:
    """Return the classes that the images may have, in the order of the source; an unknown one is refused by name."""
    if settings.classes is None:
        found = [name for name in known if name in domain.class_names]
        if not found:
            raise ParamsError(
                f"suite.yaml: steps.{settings.name}.classes: the source {settings.source} and {domain.name} have no "
                "class in common"
            )
        return found
    key = f"suite.yaml: steps.{settings.name}.classes"
    for name in settings.classes:
        if name not in known:
            raise ParamsError(
                f"{key}: the source {settings.source} has no class {name!r}{did_you_mean(name, known)}"
            )
        if name not in domain.class_names:
            raise ParamsError(
                f"{key}: {domain.name} has no prompt for {name!r}; add it to the class_names of its dataset"
            )
    return [name for name in known if name in settings.classes]


def require_known(
    settings: StepSettings, seen: Sequence[str], known: Sequence[str], domain: Domain
) -> None:
    """Refuse a stream that has met classes which the source model of this step does not have."""
    absent = [name for name in seen if name not in known]
    if absent:
        after = "" if settings.source_task is None else f" after its task {settings.source_task}"
        raise ParamsError(
            f"suite.yaml: steps.{settings.name} ({domain.name}): the stream has met {listed(absent)}, which the source "
            f"{settings.source} does not have{after}"
        )


def restricted(model: SourceModel, classes: Sequence[int], options: MethodOptions) -> SourceModel:
    """Return a source model of some of its classes, in another order; the shared scatter stays whole.

    A class's discriminant does not depend on the other classes (11), (12), so that the restriction of the classifier
    is the classifier of the restriction.
    """
    index = np.asarray(classes, dtype=np.intp)
    classifier = Classifier(model.classifier.W[:, index], model.classifier.b[index])
    scatter = model.scatter if options.source_covariance else None
    return SourceModel(model.means[index], classifier, model.embedding_means[index], scatter)


def image_paths(domain: Domain) -> list[str]:
    """Return the paths of a domain's images, which must be those of its embeddings, row by row."""
    images = read_images(domain.manifest / "images.csv")
    domain.vision.require({"rows_digest": rows_digest(image.sha256 for image in images)})
    return [image.path for image in images]


def adapt_step(index: int, reduce_rows: RowReduction, *, step: OpenedStep) -> StepResult:
    """Add a step's images to the statistics of all earlier ones, and label them.

    Parameters
    ----------
    index : int
        Not used: a stream has one seed; `Executor.for_each_seed` gives it.
    reduce_rows : RowReduction
        Who does the work on the rows.
    step : OpenedStep

    Returns
    -------
    StepResult
    """
    del index
    options, everything = step.options, np.arange(len(step.images))
    clip_scale = step.prompts.logit_scale
    corrected = np.array(sorted(step.corrected), dtype=np.intp)
    statistics = empty_statistics(step.basis, options)
    if step.before is not None:
        statistics = step.before.statistics
    weight = np.zeros(len(everything))
    if len(corrected):
        labelled = _corrected_task(step, corrected)
        statistics = statistics.update(labelled, reduce_rows)
        weight[corrected] = step.settings.correction_weight
    others = np.setdiff1d(everything, corrected)
    task = step.task(others)
    statistics, adapted = adapt_task(
        step.basis,
        statistics,
        task,
        None,
        source=step.source,
        options=options,
        clip_scale=clip_scale,
        reduce_rows=reduce_rows,
    )
    if not isinstance(statistics, ExactStatistics):  # `open_step` refuses the other kinds
        raise TypeError(type(statistics).__name__)
    weight[others] = np.where(adapted.labels.kept, adapted.labels.weight, 0.0)
    prediction = _predicted(step, step.task(everything), adapted.classifier, reduce_rows)
    return StepResult(statistics, adapted.classifier, prediction, weight)


def _corrected_task(step: OpenedStep, corrected: Index) -> LabelledTask:
    """Return the images that a person looked at as rows of certain labels."""
    features: KernelRows = kernel_rows(
        step.basis, step.task(corrected), step.options.clip_in_kernel
    )
    labels = np.array([step.corrected[int(row)] for row in corrected], dtype=np.intp)
    weights = np.full(len(labels), step.settings.correction_weight)
    views = {view: features.views[view] for view in step.options.views}
    count = step.options.prior_count
    return LabelledTask(
        features.basis,
        LabelledRows(views, labels, weights),
        step.classes,
        step.source.means[step.classes] if count > 0 else None,
        count,
    )


def _predicted(
    step: OpenedStep, task: TargetTask, classifier: Classifier, reduce_rows: RowReduction
) -> Prediction:
    """Return what the classifier and CLIP say of images, over the classes of the step; certain where corrected."""
    options = step.options
    features = kernel_rows(step.basis, task, options.clip_in_kernel)
    klda = klda_probabilities(
        features,
        classifier,
        task.classes,
        options,
        vote=options.vote_at_test,
        reduce_rows=reduce_rows,
    )
    scale = options.clip_logit_scale(step.prompts.logit_scale)
    clip = clip_probabilities(task.cosines, scale, task.classes)
    fused = fuse(klda, clip, options.fusion(at_test=True))
    for row, label in step.corrected.items():
        fused[row] = task.classes == label
    return Prediction(klda, clip, fused)


def state_after(step: OpenedStep, result: StepResult, summary: dict[str, Any]) -> StreamState:
    """Return the state to be written."""
    before = step.before
    return StreamState(
        step=step.settings.name,
        steps_before=() if before is None else (*before.steps_before, before.step),
        classes=step.order,
        prompts=step.prompts,
        origin=step.origin,
        statistics=result.statistics,
        classifier=lifted(step.basis, result.classifier),
        summary=summary,
    )
