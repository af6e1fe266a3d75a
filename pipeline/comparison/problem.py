"""What a compared method may see of one seed of one problem, and what it must return.

No target label is in here: a method cannot read one. Source rows and labels are, because some of the paper's
baselines are not source-free; a method that reads them after the source is fitted says so (`source_samples`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pipeline.method.adaptation import TargetTask
from pipeline.method.class_statistics import Labels, Matrix64
from pipeline.method.random_fourier_features import Basis
from pipeline.method.zero_shot import Matrix

Group = Literal["reference", "ablation", "referee", "peer", "head"]
Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class SourceRows:
    """Labelled train rows of the source: embeddings (n, d) by view, ``original`` among them; labels (n,).

    clip: (n, d') CLIP's embeddings of the images.
    """

    views: Mapping[str, Matrix]
    labels: Labels
    clip: Matrix | None = None


@dataclass(frozen=True, eq=False)
class TestRows:
    """Test rows of the target, unlabelled: embeddings (n, d) by view; cosines (n, C) to every class's prompt.

    clip: (n, d') CLIP's embeddings of the images.
    """

    __test__ = False  # not for pytest, whatever its name

    views: Mapping[str, Matrix]
    cosines: Matrix64
    clip: Matrix | None = None


@dataclass(frozen=True, eq=False)
class SeedProblem:
    """One seed of one problem: classes are numbered 0 … C−1 in the order of arrival.

    target: the unlabelled train rows of each task, in order, with the task's class set. Embeddings are as the
    backbone gave them: normalise them where the method wants unit rows. seed: the only randomness a method has.
    """

    basis: Basis
    source: SourceRows
    target: Sequence[TargetTask]
    test: TestRows
    clip_scale: float
    seed: int
    _shared: dict[object, Any] = field(default_factory=dict, repr=False)

    @property
    def tasks(self) -> list[Labels]:
        """The class set of each task."""
        return [task.classes for task in self.target]

    def shared(self, key: object, make: Callable[[], Value]) -> Value:
        """Return what ``make`` returned the first time ``key`` was asked for: methods share work, not state."""
        if key not in self._shared:
            self._shared[key] = make()
        value: Value = self._shared[key]
        return value


@dataclass(frozen=True)
class ComparedMethod:
    """A method by its function and by what a table says of it.

    run: returns, after each task, the class (n,) predicted for every test row among the classes seen.
    title: in tables. source_samples: reads source rows while adapting to the target, so it is not source-free.
    """

    run: Callable[[SeedProblem], list[Labels]]
    title: str
    group: Group
    source_samples: bool = False
