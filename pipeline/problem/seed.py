"""The rows that a method may read of one seed of a problem, with source and target separate.

A seed fixes the train/test split of both domains and the Fourier basis. `Target` has no field for labels, so a method
that gets one cannot read them: the types guarantee that the protocol is source-free and label-free.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Self, TypeVar

from pipeline.method.random_fourier_features import Basis
from pipeline.method.rows import Labels, Matrix, Rows, TargetTask, UnlabelledRows

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Source:
    """Labelled train rows of the source domain."""

    views: Mapping[str, Rows]  # (n, d) embeddings as computed by the backbone, by view; always includes ``original``
    labels: Labels  # (n,) class of each row, 0 to C - 1 in order of arrival
    clip: Rows | None = None  # (n, d_clip) CLIP's embeddings of the same images


@dataclass(frozen=True, eq=False)
class Target:
    """Unlabelled rows of the target domain."""

    tasks: Sequence[TargetTask]  # train rows of each task, in order, with the task's class set
    test: UnlabelledRows  # test rows of all tasks
    clip_scale: float  # logit scale of the CLIP model
    text: Matrix | None = None  # (C, d_clip) CLIP's embeddings of the classes' prompts
    estimate_classes: bool = False  # some classes of a task may have no images: REFEREE's variants estimate which


@dataclass(frozen=True, eq=False)
class Seed:
    """One seed of a problem."""

    number: int  # the random seed, the only source of randomness that a method may use
    basis: Basis  # random Fourier basis of this seed
    source: Source
    target: Target
    _shared: dict[object, Any] = field(default_factory=dict, init=False, repr=False)
    _locks: dict[object, Lock] = field(default_factory=dict, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    @property
    def tasks(self) -> list[Labels]:
        """The class set of each task."""
        return [task.classes for task in self.target.tasks]

    def shared(self, key: object, make: Callable[[], Value]) -> Value:
        """Return the result of ``make``, computed once per key for all methods that run on this seed.

        Callers must not modify it.
        """
        with self._lock:
            key_lock = self._locks.setdefault(key, Lock())
        with key_lock:  # a second thread that asks for the same key waits
            if key not in self._shared:
                self._shared[key] = make()
            value: Value = self._shared[key]
        return value

    def with_basis(self, basis: Basis) -> Self:
        """Return the same rows with another basis, without the shared results of this one."""
        return replace(self, basis=basis)
