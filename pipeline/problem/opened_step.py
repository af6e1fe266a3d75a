"""All that a step of a stream reads, checked: the state before it, its own unlabelled images, the source's model.

Classes are numbered in the order in which the stream meets them: the method sees what it sees in a benchmark, classes
0 … K−1, of which the step's images have some. No image, row or label of an earlier step is reached from here, nor a
label of this one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from pipeline import paths
from pipeline.datasets.manifest_files import is_private, read_images, rows_digest
from pipeline.errors import ParamsError, did_you_mean, listed
from pipeline.method.adaptation import Referee
from pipeline.method.kernel_directions import lowered
from pipeline.method.kernel_lda import Classifier
from pipeline.method.random_fourier_features import Basis
from pipeline.method.rows import Index, RowReduction, TargetTask, Vector64, as_array, take
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import CosineRows
from pipeline.problem.corrections import read_corrections
from pipeline.problem.domain import Domain
from pipeline.problem.stream_model import origin_of, require_same_origin, require_same_prompts
from pipeline.store.basis_file import read_bases
from pipeline.store.prompt_store import Prompts
from pipeline.store.source_store import read_backbones, read_class_means, read_source_after
from pipeline.store.stream_state import StreamOrigin, StreamState, read_stream_state


@dataclass(frozen=True)
class StepSettings:
    """What suite.yaml says of a step, see `pipeline.suite.Step`; ``classes`` and ``step_before`` may be None."""

    name: str
    source: str
    classes: tuple[str, ...] | None
    step_before: str | None
    corrections: Path
    correction_weight: float
    source_task: int | None

    @property
    def key(self) -> str:
        """Where the step stands, for messages."""
        return f"suite.yaml: steps.{self.name}"


@dataclass(frozen=True, eq=False)
class OpenedStep:
    """All that a step reads."""

    settings: StepSettings
    domain: Domain  # the step's images, unlabelled
    options: MethodOptions
    origin: StreamOrigin  # what the state will rest on
    before: StreamState | None  # the state of the step before; None for a first step
    basis: Basis
    order: tuple[str, ...]  # the K classes seen with this step, in the order in which the stream met them
    class_means: Mapping[str, Vector64]  # (d,) of unit embeddings: of all the source's classes, seen or not
    classes: Index  # (c,) positions in ``order`` of the classes that the images may have, ascending
    # of the classes of ``order``; one that it never had has the stream's mean, NaN if it is new, and no discriminant
    source: SourceModel
    unknown_to_source: Index  # positions in ``order`` of the classes that the source never had
    images: list[str]  # the names of the n images, in the order of the rows: paths, or `row N` where paths are private
    corrected: Mapping[int, int]  # row number to position in ``order`` of the images that a person looked at

    @property
    def class_names(self) -> list[str]:
        """The names of the classes that the images may have."""
        return [self.order[index] for index in self.classes]

    @property
    def rejecting_classes(self) -> tuple[str, ...]:
        """The classes by which images are rejected: those of ``order``, then the source's others."""
        return (*self.order, *(name for name in self.class_means if name not in self.order))

    @cached_property
    def prompts(self) -> Prompts:
        """Text embeddings of the classes of ``order``, then of the domain's other classes."""
        first = self.order if self.options.reject == "none" else self.rejecting_classes
        names = self.domain.prompts.classes
        return self.domain.prompts.of([*first, *(name for name in names if name not in first)])

    def referee(self, reduce_rows: RowReduction) -> Referee:
        """Return the method as the step applies it."""
        return Referee(self.basis, self.options, self.prompts.logit_scale, reduce_rows)

    def task(self, index: Index) -> TargetTask:
        """Return what the method may see of the images at ``index``."""
        clip_rows = take(self.domain.clip_rows, index)
        cosines = CosineRows(clip_rows, self.prompts.text)
        return TargetTask(
            self.domain.views_at(index, self.options.views),
            cosines if self.domain.lazy else as_array(cosines),
            clip_rows,
            classes=self.classes,
        )


def open_step(settings: StepSettings, domain: Domain, options: MethodOptions) -> OpenedStep:
    """Read all that a step reads; refuse a state of the step before that rests on something else than this step."""
    if options.statistics != "exact":
        raise ParamsError(
            f"params.yaml: method: statistics: {options.statistics} cannot be continued from a file; "
            "a stream needs sums that add: choose method.variant: calibrated"
        )
    bases = read_bases(paths.bases(settings.source))
    model_path = paths.source_model(settings.source)
    backbones = read_backbones(model_path)
    domain.require_backbones(backbones, model_path)
    origin = origin_of(settings.source, bases, options, backbones)
    before = None
    if settings.step_before is not None:
        before = read_stream_state(paths.stream_state(settings.step_before))
        require_same_origin(before, origin)
        domain.require_backbones(before.origin.backbones, paths.stream_state(before.step))
        require_same_prompts(before, domain)
    task = None if settings.source_task is None else settings.source_task - 1
    source = read_source_after(model_path, 0, task)
    class_means = read_class_means(model_path, 0)
    every = list(class_means)
    known, later = every[: len(source.means)], every[len(source.means) :]
    lacking = [name for name in every if name not in domain.class_names]
    if lacking and options.reject != "none":
        raise ParamsError(
            f"{settings.key}: the source {settings.source} has the class {lacking[0]!r}, of which {domain.name} has no "
            "prompt, and images are rejected by all its classes; add it to the class_names of its dataset"
        )
    seen = () if before is None else before.classes
    names = _classes_of_step(settings, (*known, *(c for c in seen if c not in known)), domain)
    order = (*seen, *(name for name in names if name not in seen))
    if early := [name for name in order if name in later]:  # which the source has, but not yet
        raise ParamsError(
            f"{settings.key}.source_task: the source {settings.source} has no {listed(early)} after its task "
            f"{settings.source_task}; name a later task"
        )
    basis, images = bases.reduced(0, options), _image_names(domain)
    corrections = read_corrections(settings.corrections, images, names)
    source = _of_classes(source, known, order, before, options)
    return OpenedStep(
        settings=settings,
        domain=domain,
        options=options,
        origin=origin,
        before=before,
        basis=basis,
        order=order,
        class_means=class_means,
        classes=np.flatnonzero([name in names for name in order]),
        source=replace(source, classifier=lowered(basis, source.classifier)),
        unknown_to_source=np.flatnonzero([name not in known for name in order]),
        images=images,
        corrected={row: order.index(name) for row, name in corrections.items()},
    )


def _classes_of_step(settings: StepSettings, known: Sequence[str], domain: Domain) -> list[str]:
    """Return the classes that the images may have: those of ``known`` in its order, then new ones, which CLIP names."""
    if settings.classes is None:
        found = [name for name in known if name in domain.class_names]
        if not found:
            raise ParamsError(
                f"{settings.key}.classes: the source {settings.source} and {domain.name} have no class in common"
            )
        return found
    for name in settings.classes:
        if name not in domain.class_names:
            raise ParamsError(
                f"{settings.key}.classes: {domain.name} has no class {name!r}{did_you_mean(name, domain.class_names)}; "
                "add it to the class_names of its dataset if it is new"
            )
    new = [name for name in settings.classes if name not in known]
    return [*(name for name in known if name in settings.classes), *new]


def _of_classes(
    model: SourceModel, known: Sequence[str], order: Sequence[str], before: StreamState | None, options: MethodOptions
) -> SourceModel:
    """Return the source model of the classes of ``order``; the shared scatter stays whole.

    A class's discriminant does not depend on the other classes (11), (12), so that the restriction of the classifier
    is the classifier of the restriction.
    """
    at = np.array([known.index(name) if name in known else -1 for name in order], dtype=np.intp)
    absent = at < 0
    means, embedding_means = model.means[at], model.embedding_means[at]
    W, b = model.classifier.W[:, at], model.classifier.b[at]
    means[absent] = embedding_means[absent] = W[:, absent] = b[absent] = np.nan
    if before is not None:  # a new class keeps the mean with which it began
        met = np.flatnonzero(absent[: len(before.classes)])
        means[met] = before.statistics.prior_means[met]
    scatter = model.scatter if options.source_covariance else None
    return SourceModel(means, Classifier(W, b), embedding_means, scatter)


def _image_names(domain: Domain) -> list[str]:
    """Return the names of a domain's n images, row by row: their paths, or `row N` where paths are private."""
    if is_private(domain.manifest):  # DVC gets the step's table, and must not get the paths
        return [f"row {row}" for row in range(domain.vision.rows)]
    images = read_images(domain.manifest)
    domain.vision.require({"rows_digest": rows_digest(image.sha256 for image in images)})
    return [image.path for image in images]
