"""Open and check all inputs of a stream's step: the state before it, its unlabelled images and the source's model.

Classes are numbered in the order in which the stream meets them. So the method gets the same as in a benchmark, classes
0 … K−1, of which the step's images have some. Nothing here gives access to an image, row or label of an earlier step,
nor to a label of this one.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import paths
from pipeline.datasets.manifest_files import is_private
from pipeline.errors import ParamsError, did_you_mean, listed
from pipeline.method.adaptation import Referee
from pipeline.method.kernel_directions import in_kept_directions
from pipeline.method.kernel_lda import Classifier
from pipeline.method.rows import Index, RowReduction, TargetTask, as_array, take
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import cosine_rows
from pipeline.problem.adapted_model import origin_of
from pipeline.problem.domain import Domain, paths_of_rows
from pipeline.problem.step_tables import read_corrections
from pipeline.store.basis_file import read_bases
from pipeline.store.source_store import read_backbones, read_class_means, read_source_after
from pipeline.store.stream_state import StreamState, read_stream_state


class OpenedStep:
    """The inputs of a step; opening them fails if the state of the step before has another origin than this step.

    ``entry`` is the step's entry in suite.yaml, a `pipeline.config.suite.StepEntry`.
    """

    def __init__(self, name: str, entry: Any, domain: Domain, options: MethodOptions) -> None:
        if options.statistics != "exact":
            raise ParamsError(
                f"params.yaml: method: statistics: {options.statistics} cannot be continued from a file; "
                "a stream needs sums that add: choose method.variant: calibrated"
            )
        self.name, self.entry, self.options = name, entry, options
        self.key = f"suite.yaml: steps.{name}"  # for messages
        self.domain = domain  # the step's images, unlabelled
        bases, model_path = read_bases(paths.bases(entry.source)), paths.source_model(entry.source)
        self.basis, backbones = bases.reduced(0, options), read_backbones(model_path)
        domain.require_backbones(backbones, model_path)
        self.origin = origin_of(entry.source, bases, options, backbones)  # the next step must have the same
        self.previous_state: StreamState | None = None  # the state of the step before, or None for a first step
        if entry.step_before is not None:
            self.previous_state = read_stream_state(paths.stream_state(entry.step_before))
            self.previous_state.require_origin(self.origin)
            domain.require_backbones(self.previous_state.origin.backbones, paths.stream_state(self.previous_state.step))
            self.previous_state.require_prompts(domain.prompts, domain.name)
        # the mean unit embedding (d,) of each class of the source, whether seen by the stream or not
        self.class_means = read_class_means(model_path, 0)
        task = None if entry.source_task is None else entry.source_task - 1
        source = read_source_after(model_path, 0, task)
        known = list(self.class_means)[: len(source.means)]
        classes_seen = () if self.previous_state is None else self.previous_state.classes
        # names of the classes that the images may have
        names = self._classes([*known, *(name for name in classes_seen if name not in known)])
        # the K classes seen up to and including this step, in the order in which the stream met them
        self.order = (*classes_seen, *(name for name in names if name not in classes_seen))
        self._require_classes(known)
        # (c,) positions in `order` of the classes that the images may have, ascending
        self.classes = np.flatnonzero([name in names for name in self.order])
        # positions in `order` of the classes that the source never had
        self.unknown_to_source = np.flatnonzero([name not in known for name in self.order])
        # the source model of the classes in `order`; classes that the source never had have the stream's mean (NaN if
        # they are new) and no discriminant
        self.source = self._source(source, known)
        # names of the n images in row order: paths, or `row N` if paths are private
        self.images = _image_names(domain)
        corrections = read_corrections(Path(entry.corrections), self.images, names)
        # row numbers of the images that a person labelled, with the class's position in `order`
        self.corrected = {row: self.order.index(name) for row, name in corrections.items()}
        # text embeddings of the classes in `order`, followed by the domain's other classes
        first = self.order if options.reject == "none" else self.rejecting_classes
        others = [name for name in domain.class_names if name not in first]
        self.prompts = domain.prompts.for_classes([*first, *others])

    @property
    def class_names(self) -> list[str]:
        """The names of the classes that the images may have."""
        return [self.order[index] for index in self.classes]

    @property
    def rejecting_classes(self) -> tuple[str, ...]:
        """The classes that images are compared with to reject them: those of ``order``, then the source's others."""
        return (*self.order, *(name for name in self.class_means if name not in self.order))

    def referee(self, reduce_rows: RowReduction) -> Referee:
        """Return the method with the basis and options of this step."""
        return Referee(self.basis, self.options, self.prompts.logit_scale, reduce_rows)

    def task(self, index: Index) -> TargetTask:
        """Return everything that the method may read of the images at ``index``."""
        clip_rows = take(self.domain.clip_rows, index)
        cosines = cosine_rows(clip_rows, self.prompts.text)
        return TargetTask(
            self.domain.views_at(index, self.options.views),
            cosines if self.domain.lazy else as_array(cosines),
            clip_rows,
            classes=self.classes,
        )

    def _classes(self, known: Sequence[str]) -> list[str]:
        """Return the classes that images may have: those among ``known``, in its order, then new ones."""
        entry, domain = self.entry, self.domain
        if entry.classes == "all":
            shared = [name for name in known if name in domain.class_names]
            if not shared:
                raise ParamsError(
                    f"{self.key}.classes: the source {entry.source} and {domain.name} have no class in common"
                )
            return shared
        for name in entry.classes:
            if name not in domain.class_names:
                raise ParamsError(
                    f"{self.key}.classes: {domain.name} has no class {name!r}"
                    f"{did_you_mean(name, domain.class_names)}; add it to the class_names of its dataset if it is new"
                )
        new = [name for name in entry.classes if name not in known]
        return [*(name for name in known if name in entry.classes), *new]

    def _require_classes(self, known: Sequence[str]) -> None:
        """Raise ParamsError if the source has not learned a class yet, or rejection needs a missing prompt."""
        entry, domain = self.entry, self.domain
        lacking = [name for name in self.class_means if name not in domain.class_names]
        if lacking and self.options.reject != "none":
            raise ParamsError(
                f"{self.key}: {domain.name} has no prompt for {lacking[0]!r}, a class of the source {entry.source}; "
                f"rejecting images needs all of its classes, so add it to the class_names of {domain.name}'s dataset"
            )
        if early := [name for name in self.order if name in self.class_means and name not in known]:
            raise ParamsError(
                f"{self.key}.source_task: the source {entry.source} has no {listed(early)} after its task "
                f"{entry.source_task}; name a later task"
            )

    def _source(self, model: SourceModel, known: Sequence[str]) -> SourceModel:
        """Return the source model restricted to the classes of ``order``; the shared scatter stays whole.

        By eqs. (11) and (12) a class's discriminant does not depend on the other classes, so selecting columns of the
        classifier gives the classifier of the selected classes.
        """
        columns = np.array([known.index(name) if name in known else -1 for name in self.order], dtype=np.intp)
        absent = self.unknown_to_source
        means, embedding_means = model.means[columns], model.embedding_means[columns]
        W, b = model.classifier.W[:, columns], model.classifier.b[columns]
        means[absent] = embedding_means[absent] = W[:, absent] = b[absent] = np.nan
        if self.previous_state is not None:  # a class that the source never had keeps its first mean
            met = absent[absent < len(self.previous_state.classes)]
            means[met] = self.previous_state.statistics.prior_means[met]
        classifier = in_kept_directions(self.basis, Classifier(W, b))
        scatter = model.scatter if self.options.source_covariance else None
        return replace(model, means=means, classifier=classifier, embedding_means=embedding_means, scatter=scatter)


def _image_names(domain: Domain) -> list[str]:
    """Return the names of a domain's n images in row order: paths, or `row N` if paths are private."""
    if is_private(domain.manifest):  # the step's table is pushed with DVC and must not contain paths
        return [f"row {row}" for row in range(domain.vision.rows)]
    return paths_of_rows(domain)
