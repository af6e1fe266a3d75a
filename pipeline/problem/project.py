"""A project's caches by the names that suite.yaml gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import ParamsError, did_you_mean
from pipeline.problem.domain import Domain, LabelledDomain
from pipeline.problem.problem import LabelledProblem, Problem


@dataclass(frozen=True)
class Project:
    """Opens the domains and problems of a project.

    Attributes
    ----------
    vision, language : str
        Names of the two models.
    problems : mapping of str to (str, str)
        Source and target of each problem.
    root : Path
        The project's folder; by default the current one.
    """

    vision: str
    language: str
    problems: Mapping[str, tuple[str, str]]
    root: Path = Path()

    def domain(self, name: str, *, lazy: bool = False) -> Domain:
        """Return a domain without its labels."""
        return Domain(name, vision=self.vision, language=self.language, lazy=lazy, root=self.root)

    def labelled_domain(self, name: str, *, lazy: bool = False) -> LabelledDomain:
        """Return a domain with its labels."""
        return LabelledDomain(
            name, vision=self.vision, language=self.language, lazy=lazy, root=self.root
        )

    def problem(self, name: str, *, lazy: bool = False) -> Problem:
        """Return what adapting may read of a problem: the target without labels, and the source's model."""
        source, target = self._pair(name)
        return Problem(name, source, self.domain(target, lazy=lazy))

    def labelled_problem(self, name: str, *, lazy: bool = False) -> LabelledProblem:
        """Return a problem with the rows and labels of both domains, to compare methods on."""
        source, target = self._pair(name)
        return LabelledProblem(
            name, self.labelled_domain(source, lazy=lazy), self.labelled_domain(target, lazy=lazy)
        )

    def _pair(self, name: str) -> tuple[str, str]:
        if name not in self.problems:
            raise ParamsError(
                f"suite.yaml: problems: there is no {name!r}{did_you_mean(name, self.problems)}"
            )
        return self.problems[name]
