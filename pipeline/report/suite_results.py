"""What was measured on a suite's problems, averaged as asked, and the columns that a table of it has."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pipeline.report import published
from pipeline.report.comparison_files import Figures
from pipeline.report.table import Cell, Column

MEAN = "mean: over the problems; its deviation is that of the seeds' means"


@dataclass(frozen=True)
class Suite:
    """What was measured: problem -> method -> figures; the dataset of each problem."""

    name: str
    results: Mapping[str, Mapping[str, Figures]]
    datasets: Mapping[str, str]

    def by_dataset(self) -> dict[str, list[str]]:
        """Return dataset -> problems, in order."""
        found: dict[str, list[str]] = {}
        for problem in self.results:
            found.setdefault(self.datasets[problem], []).append(problem)
        return found

    @property
    def title(self) -> str:
        """The dataset's name, or the suite's where there are several."""
        groups = self.by_dataset()
        return dataset_title(next(iter(groups))) if len(groups) == 1 else self.name

    def methods(self) -> dict[str, Figures]:
        """Return every method in order, with the figures of the first problem that has it."""
        found: dict[str, Figures] = {}
        for figures in self.results.values():
            for method, told in figures.items():
                found.setdefault(method, told)
        return found

    def cell(self, method: str, problems: Sequence[str]) -> Cell | None:
        """Return A_T of a method, averaged over ``problems``; None where one of them lacks it or it failed.

        The deviation of an average is that of the seeds' averages: a seed is one run of all problems.
        """
        told = [self.results[problem].get(method) for problem in problems]
        figures = [one for one in told if one is not None and not one.failed]
        if len(figures) < len(told) or not told:
            return None
        mean = statistics.fmean(one.mean for one in figures)
        seeds = {len(one.per_seed) for one in figures}
        if len(seeds) > 1 or seeds == {1}:
            return Cell(decimal(mean))
        if len(figures) == 1:
            return Cell(decimal(mean), decimal(figures[0].sd))
        runs = [statistics.fmean(run) for run in zip(*(f.per_seed for f in figures), strict=True)]
        return Cell(decimal(mean), decimal(statistics.pstdev(runs)))

    def failures(self, method: str) -> str:
        """Say on which problems a method could not run, and why; nothing where it ran on all."""
        reasons: dict[str, list[str]] = {}
        for problem, told in self.results.items():
            if method in told and told[method].failed:
                reasons.setdefault(told[method].failed, []).append(problem)
        parts = [f"on {', '.join(problems)} ({reason})" for reason, problems in reasons.items()]
        return f"failed {'; '.join(parts)}" if parts else ""

    def note(self) -> str:
        """Say what the figures are."""
        measured = [f for r in self.results.values() for f in r.values() if not f.failed]
        seeds = sorted({len(f.per_seed) for f in measured})
        over = " or ".join(map(str, seeds))
        what = "A_T in percent: accuracy averaged over all tasks after the last one, no task id"
        spread = f"mean ± standard deviation over {over} seeds" if seeds != [1] else "one seed"
        return f"{what}; {spread}"


@dataclass(frozen=True)
class Layout:
    """The columns of a suite, and the problems that each one averages."""

    columns: tuple[Column, ...]
    problems: Mapping[str, tuple[str, ...]]  # by key of the column
    sections: tuple[tuple[str, str], ...]


def layout(suite: Suite) -> Layout:
    """Return a column per problem, a mean per dataset and, of several datasets, a section that sums up."""
    groups = suite.by_dataset()
    several = len(groups) > 1
    columns: list[Column] = []
    summary: list[Column] = []
    problems: dict[str, tuple[str, ...]] = {}
    for dataset, members in groups.items():
        last = members[0]
        for problem in members:
            columns.append(Column(problem, problem_title(dataset, problem), dataset))
            problems[problem] = (problem,)
        if len(members) > 1:
            last = f"{dataset}.mean" if several else "mean"
            columns.append(Column(last, "mean", dataset, note=MEAN))
            problems[last] = tuple(members)
        summary.append(Column(last, dataset_title(dataset), "all"))
    if several:
        problems["mean"] = tuple(suite.results)
        title = f"mean of {len(suite.results)} problems"
        columns += [*summary, Column("mean", title, "all", note=MEAN)]
    titles = [(dataset, dataset_title(dataset)) for dataset in groups]
    return Layout(tuple(columns), problems, (*titles, ("all", "all datasets")))


def problem_title(dataset: str, problem: str) -> str:
    """Return a column's title: the paper's name of the problem, or its domains."""
    return published.abbreviation(dataset, problem) or problem.replace("-", " → ").replace("_", " ")


def dataset_title(dataset: str) -> str:
    """Return a dataset's name as the paper writes it, or as it stands."""
    return published.TITLES.get(dataset, dataset)


def decimal(value: float) -> Decimal:
    """Return ``value`` with two decimals, as the results' files have them."""
    return Decimal(f"{value:.2f}")
