"""A project's caches by the names that suite.yaml gives them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from pipeline.problem.domain import Domain, LabelledDomain, SourceDomain
from pipeline.problem.problem import LabelledProblem, Problem

Kind = TypeVar("Kind", bound=Domain)


class Pair(NamedTuple):
    """The two domains of a problem, and how it differs from the closed set, see `Domain`."""

    source: str
    target: str
    label_space: str | None = None
    hidden: bool = False


@dataclass(frozen=True)
class Project:
    """Opens the domains and problems of a project."""

    vision: str  # names of the two models
    language: str
    problems: Mapping[str, Pair]
    root: Path = Path()  # the project's folder

    def domain(self, name: str, *, lazy: bool = False) -> Domain:
        """Return a domain without its labels."""
        return self._open(Domain, name, lazy)

    def source_domain(self, name: str, *, lazy: bool = False, label_space: str | None = None) -> SourceDomain:
        """Return a domain with its labels, without the classes that only the target of a label space has."""
        return self._open(SourceDomain, name, lazy, label_space)

    def labelled_target(self, problem: str, *, lazy: bool = False) -> LabelledDomain:
        """Return the target of a problem with its labels, to evaluate on."""
        pair = self.problems[problem]
        return self._open(LabelledDomain, pair.target, lazy, pair.label_space, pair.hidden)

    def problem(self, name: str, *, lazy: bool = False) -> Problem:
        """Return what adapting may read of a problem: the target without labels, and the source's model."""
        pair = self.problems[name]
        return Problem(name, pair.source, self._open(Domain, pair.target, lazy, pair.label_space, pair.hidden))

    def labelled_problem(self, name: str, *, lazy: bool = False) -> LabelledProblem:
        """Return a problem with the rows and labels of both domains, to compare methods on.

        Methods are given the classes of each task, whatever the problem's `classes` says.
        """
        source, target, space, _ = self.problems[name]
        return LabelledProblem(
            name, self._open(SourceDomain, source, lazy, space), self._open(LabelledDomain, target, lazy, space)
        )

    def _open(
        self, kind: type[Kind], name: str, lazy: bool, label_space: str | None = None, hidden: bool = False
    ) -> Kind:
        return kind(name, self.vision, self.language, lazy, self.root, label_space, hidden)
