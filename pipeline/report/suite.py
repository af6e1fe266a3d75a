"""What was measured on the problems of a suite, averaged over problems, and the columns of its tables."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.report import published
from pipeline.report.compared_methods import MethodFigures
from pipeline.report.figures import Cell, decimal
from pipeline.report.table import Column

MEAN = "mean: over the problems; its deviation is that of the seeds' means"
SUMMARY = ("all", "all datasets")  # the section that sums up, and its title


@dataclass(frozen=True)
class Suite:
    """What was measured on a suite."""

    name: str
    results: Mapping[str, Mapping[str, MethodFigures]]  # problem -> method -> figures
    datasets: Mapping[str, str]  # the dataset of each problem

    def by_dataset(self) -> dict[str, list[str]]:
        """Return the problems of each dataset, in order."""
        groups: dict[str, list[str]] = {}
        for problem in self.results:
            groups.setdefault(self.datasets[problem], []).append(problem)
        return groups

    @property
    def has_several_datasets(self) -> bool:
        """Whether the problems belong to more than one dataset."""
        return len(self.by_dataset()) > 1

    @property
    def title(self) -> str:
        """The dataset's name, or the suite's where there are several datasets."""
        first, *others = self.by_dataset()
        return self.name if others else dataset_title(first)

    def mean_key(self, dataset: str) -> str:
        """Return the key of the mean over a dataset's problems."""
        return f"{dataset}.mean" if self.has_several_datasets else "mean"

    def methods(self) -> dict[str, MethodFigures]:
        """Return every method in order, with its figures on the first problem that has it."""
        found: dict[str, MethodFigures] = {}
        for methods in self.results.values():
            found |= {**methods, **found}
        return found

    def cell(self, method: str, problems: Sequence[str]) -> Cell | None:
        """Return A_T of a method averaged over problems; None where one lacks the method or it failed there.

        The deviation of an average is that of the seeds' averages: a seed is one run of all problems.
        """
        entries = [self.results[problem].get(method) for problem in problems]
        figures = [entry for entry in entries if entry is not None and not entry.failed]
        if len(figures) < len(entries):
            return None
        mean = decimal(statistics.fmean(entry.A_T for entry in figures))
        seeds = {len(entry.A_T_per_seed) for entry in figures}
        if len(seeds) > 1 or seeds == {1}:
            return Cell(mean)
        if len(figures) == 1:
            return Cell(mean, decimal(figures[0].A_T_sd))
        runs = zip(*(entry.A_T_per_seed for entry in figures), strict=True)
        return Cell(mean, decimal(statistics.pstdev(statistics.fmean(run) for run in runs)))

    def failures(self, method: str) -> str:
        """Return on which problems a method could not run, and why; empty where it ran on all."""
        reasons: dict[str, list[str]] = {}
        for problem, methods in self.results.items():
            if method in methods and methods[method].failed:
                reasons.setdefault(methods[method].failed, []).append(problem)
        parts = [f"on {', '.join(problems)} ({reason})" for reason, problems in reasons.items()]
        return f"failed {'; '.join(parts)}" if parts else ""

    def note(self) -> str:
        """Return what the figures are."""
        figures = [figures for methods in self.results.values() for figures in methods.values()]
        seeds = sorted({len(one.A_T_per_seed) for one in figures if not one.failed})
        over = " or ".join(map(str, seeds))
        what = "A_T in percent: accuracy averaged over all tasks after the last one, no task id"
        spread = f"mean ± standard deviation over {over} seeds" if seeds != [1] else "one seed"
        return f"{what}; {spread}"


def suite_columns(suite: Suite) -> dict[Column, list[str]]:
    """Return the columns with the problems that each averages.

    A column per problem, a mean per dataset and, of several datasets, a section that sums up.
    """
    columns: dict[Column, list[str]] = {}
    summary: dict[Column, list[str]] = {}
    for dataset, members in suite.by_dataset().items():
        title, key = dataset_title(dataset), members[0]
        for problem in members:
            columns[Column(problem, problem_title(dataset, problem), dataset, title)] = [problem]
        if len(members) > 1:
            key = suite.mean_key(dataset)
            columns[Column(key, "mean", dataset, title, note=MEAN)] = members
        summary[Column(key, title, *SUMMARY)] = members
    if suite.has_several_datasets:
        title = f"mean of {len(suite.results)} problems"
        columns |= summary | {Column("mean", title, *SUMMARY, note=MEAN): list(suite.results)}
    return columns


def problem_title(dataset: str, problem: str) -> str:
    """Return the paper's name of a problem, or its two domains."""
    domains = problem.replace("-", " → ").replace("_", " ")
    return published.problems_of(dataset).get(problem, domains)


def dataset_title(dataset: str) -> str:
    """Return a dataset's name as the paper writes it, or as it is."""
    return published.TITLES.get(dataset, dataset)
