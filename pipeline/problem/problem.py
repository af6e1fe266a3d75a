"""Open a project's problems, as `Problem` without labels for adapting or as `LabelledProblem` to compare methods."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pipeline import paths
from pipeline.datasets.task_files import CLASSES
from pipeline.errors import StoreError
from pipeline.method.continual_metrics import UNKNOWN, Answers, LabelSpaceScores, accuracy_matrix, scores_after_tasks
from pipeline.method.random_fourier_features import Basis
from pipeline.method.rejection import class_directions
from pipeline.method.rows import Index, Labels, Matrix64, UnlabelledRows, as_array, take
from pipeline.method.source_model import SourceModel
from pipeline.problem.domain import Domain, LabelledDomain, SourceDomain
from pipeline.problem.seed import Seed, Source, Target
from pipeline.store.basis_file import Bases, read_bases
from pipeline.store.source_store import read_backbones, read_source

Kind = TypeVar("Kind", bound=Domain)


@dataclass(eq=False)
class Problem:
    """Everything that adapting may read of a problem: the target without labels, and the source's model."""

    name: str  # the problem's key in suite.yaml
    source: str  # name of the source domain; its rows, images and labels cannot be reached from here
    target: Domain  # unlabelled

    @property
    def _model_path(self) -> Path:
        return self.target.root / paths.source_model(self.source, self.target.label_space)

    @cached_property
    def bases(self) -> Bases:
        """The random Fourier bases, one per seed, shared by source and target."""
        return read_bases(self.target.root / paths.bases(self.source))

    def check_backbones(self) -> None:
        """Raise StoreError if the target's rows were made by other backbones than the source model's."""
        self.target.require_backbones(read_backbones(self._model_path), self._model_path)
        if self.target.vision.width != self.bases.recipe.d:
            raise StoreError(
                f"{self.target.vision.path}: its rows have {self.target.vision.width} numbers, but {self.bases.path} "
                f"has d = {self.bases.recipe.d}; run dvc repro"
            )

    def source_models(self, seed_index: int, *, with_scatter: bool = False) -> Iterator[SourceModel]:
        """Yield the source model after each task of a seed.

        If classes are hidden, yield the last model every time, because an image may be of a class of a later task.
        ``with_scatter`` also reads the within-class scatter, which is large.
        """
        models = read_source(self._model_path, seed_index, self.target.class_names, with_scatter=with_scatter)
        if not self.target.hidden:
            return models
        *_, last = models
        return repeat(last, len(self.target.class_sets))

    def class_directions(self, seed_index: int) -> Matrix64:
        """Return the directions (K, d) of all classes of the source, for `rejection`."""
        *_, last = read_source(self._model_path, seed_index, self.target.class_names)
        return class_directions(last.embedding_means)


class LabelledProblem:
    """A problem with the rows and labels of both domains, for `compare`, `sensitivity` and `select`.

    It is not a `Problem`, so that code for adapting, which takes one, cannot reach labels or source rows. Methods get a
    `Seed`, which has no labels of the target; `accuracies` scores their predictions.
    """

    def __init__(self, name: str, source: LabelledDomain, target: LabelledDomain) -> None:
        self.name, self.source, self.target = name, source, target
        target.vision.require_backbone(source.vision.backbone, source.vision.path)
        target.clip.require_backbone(source.clip.backbone, source.clip.path)
        if source.classes != target.classes:  # labels of both domains are compared by number
            raise StoreError(
                f"{source.manifest / CLASSES}: its classes or tasks differ from those of {target.manifest}; "
                "a problem's two domains must have the same class folders and classes_per_task"
            )

    @property
    def has_unknown(self) -> bool:
        """Whether the target has classes that the source lacks."""
        return len(self.target.classes) < len(self.target.all_classes)

    def size(self) -> str:
        """Return the number of test images and seeds, in words."""
        seeds = self.target.seeds
        return f"n = {len(self.target.test_index(seeds[0]))} test images, {len(seeds)} seeds"

    def seed(self, seed_index: int, basis: Basis) -> Seed:
        """Read everything that a method may use of a seed into memory."""
        seed = self.target.seeds[seed_index]
        train, test = self.source.train_index(seed), self._test_index(seed_index)
        views, rows = self.target.vision.views, self.target.rows(test, self.target.vision.views)
        in_memory = {view: as_array(x) for view, x in rows.views.items()}
        tasks = [self.target.task(seed, t, views) for t in range(len(self.target.class_sets))]
        return Seed(
            number=seed,
            basis=basis,
            source=Source(
                {view: as_array(x) for view, x in self.source.views_at(train, self.source.vision.views).items()},
                self.source.labels[train],
                as_array(take(self.source.clip_rows, train)),
            ),
            target=Target(
                tasks=tasks,
                test=UnlabelledRows(in_memory, as_array(rows.cosines), as_array(take(self.target.clip_rows, test))),
                clip_scale=self.target.prompts.logit_scale,
                text=self.target.prompts.text,
                estimate_classes=self.target.estimate_classes,
            ),
        )

    def accuracies(self, seed_index: int, predictions: Sequence[Labels]) -> Matrix64:
        """Return the accuracy matrix (T, T) of a seed's ``predictions`` (n,) after each task, on known classes."""
        labels, tasks = self._truth(seed_index)
        known = labels != UNKNOWN
        return accuracy_matrix([p[known] for p in predictions], labels[known], tasks[known])

    def right(self, seed_index: int, predicted: Labels) -> npt.NDArray[np.bool_]:
        """Return whether each of a seed's m test images of known classes is predicted correctly, (m,)."""
        labels, _ = self._truth(seed_index)
        known = labels != UNKNOWN
        return np.asarray(predicted[known] == labels[known])

    def unknown_scores(self, seed_index: int, answers: Sequence[Answers]) -> list[LabelSpaceScores]:
        """Return scores after each task of separating known from unknown test images of a seed."""
        return scores_after_tasks(*self._truth(seed_index), answers)

    def _test_index(self, seed_index: int) -> Index:
        """Return the row numbers of all test images of a seed, including those of unknown classes."""
        return self.target.test_index(self.target.seeds[seed_index], unknown=True)

    def _truth(self, seed_index: int) -> tuple[Labels, Labels]:
        """Return the class and the task (n,) of all test images of a seed."""
        test = self._test_index(seed_index)
        return self.target.labels[test], self.target.tasks.task[test]


@dataclass(frozen=True)
class Project:
    """A project, whose domains and problems are opened on request."""

    vision: str  # key of the vision model
    language: str  # key of the CLIP model
    problems: Mapping[str, Any]  # see `pipeline.config.suite.ProblemEntry`
    root: Path = Path()  # the project's folder

    def domain(self, name: str, *, lazy: bool = False) -> Domain:
        """Return a domain without its labels."""
        return self._open(Domain, name, lazy)

    def source_domain(self, name: str, *, lazy: bool = False, label_space: str | None = None) -> SourceDomain:
        """Return a domain with its labels, but without the classes that only the target of a label space has."""
        return self._open(SourceDomain, name, lazy, label_space)

    def labelled_target(self, problem: str, *, lazy: bool = False) -> LabelledDomain:
        """Return the target of a problem with its labels, to evaluate on."""
        return self._target(LabelledDomain, problem, lazy)

    def problem(self, name: str, *, lazy: bool = False) -> Problem:
        """Return a problem for adapting: the target without labels, and the source's model."""
        return Problem(name, self.problems[name].source, self._target(Domain, name, lazy))

    def labelled_problem(self, name: str, *, lazy: bool = False) -> LabelledProblem:
        """Return a problem with the rows and labels of both domains, to compare methods on.

        Methods always get the classes of each task; the problem's `classes` is ignored.
        """
        entry = self.problems[name]
        source = self._open(SourceDomain, entry.source, lazy, entry.label_space)
        return LabelledProblem(name, source, self._open(LabelledDomain, entry.target, lazy, entry.label_space))

    def _target(self, kind: type[Kind], problem: str, lazy: bool) -> Kind:
        entry = self.problems[problem]
        return self._open(kind, entry.target, lazy, entry.label_space, entry.classes == "seen")

    def _open(
        self, kind: type[Kind], name: str, lazy: bool, label_space: str | None = None, hidden: bool = False
    ) -> Kind:
        return kind(name, self.vision, self.language, lazy, self.root, label_space, hidden)
