"""A project's caches by the names that suite.yaml gives them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, TypeVar

from pipeline.errors import ParamsError, did_you_mean
from pipeline.problem.domain import Domain, LabelledDomain, SourceDomain
from pipeline.problem.problem import LabelledProblem, Problem

Kind = TypeVar("Kind", bound=Domain)


class LabelSpace(TypedDict):
    """How a problem differs from the closed set, see `Domain`."""

    label_space: str | None
    hidden: bool


@dataclass(frozen=True)
class Project:
    """Opens the domains and problems of a project."""

    vision: str  # names of the two models
    language: str
    problems: Mapping[str, tuple[str, str]]  # source and target of each problem
    root: Path = Path()  # the project's folder
    # of the problems that are not closed: `label_space` and `hidden` of the target, see `Domain`
    label_spaces: Mapping[str, LabelSpace] = field(default_factory=dict)

    def domain(self, name: str, *, lazy: bool = False) -> Domain:
        """Return a domain without its labels."""
        return self._open(Domain, name, lazy)

    def source_domain(self, name: str, *, lazy: bool = False, label_space: str | None = None) -> SourceDomain:
        """Return a domain with its labels, without the classes that only the target of a label space has."""
        return self._open(SourceDomain, name, lazy, label_space)

    def labelled_target(self, problem: str, *, lazy: bool = False) -> LabelledDomain:
        """Return the target of a problem with its labels, to evaluate on."""
        return self._open(LabelledDomain, self._pair(problem)[1], lazy, **self._space(problem))

    def problem(self, name: str, *, lazy: bool = False) -> Problem:
        """Return what adapting may read of a problem: the target without labels, and the source's model."""
        source, target = self._pair(name)
        return Problem(name, source, self._open(Domain, target, lazy, **self._space(name)))

    def labelled_problem(self, name: str, *, lazy: bool = False) -> LabelledProblem:
        """Return a problem with the rows and labels of both domains, to compare methods on.

        Methods are given the classes of each task, whatever the problem's `classes` says.
        """
        source, target = self._pair(name)
        space = self._space(name)["label_space"]
        return LabelledProblem(
            name, self._open(SourceDomain, source, lazy, space), self._open(LabelledDomain, target, lazy, space)
        )

    def _open(
        self, kind: type[Kind], name: str, lazy: bool, label_space: str | None = None, hidden: bool = False
    ) -> Kind:
        return kind(name, self.vision, self.language, lazy, self.root, label_space, hidden)

    def _space(self, problem: str) -> LabelSpace:
        return self.label_spaces.get(problem, {"label_space": None, "hidden": False})

    def _pair(self, name: str) -> tuple[str, str]:
        if name not in self.problems:
            raise ParamsError(f"suite.yaml: problems: there is no {name!r}{did_you_mean(name, self.problems)}")
        return self.problems[name]
