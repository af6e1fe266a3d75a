"""Collect the results on a suite, average them over problems, and lay out the columns of its tables."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.report import published
from pipeline.report.made_with import MadeWith
from pipeline.report.results import Comparison, MethodFigures, read_comparison
from pipeline.report.table import Cell, Column, percent_cell

MEAN = "mean: average over the problems; ± is the standard deviation of this average over the seeds"
SUMMARY = ("all", "all datasets")  # key and title of the summary section


@dataclass(frozen=True)
class SuiteResults:
    """The results of all methods on the problems of a suite."""

    name: str
    comparisons: Mapping[str, Comparison]  # by problem
    datasets: Mapping[str, str]  # problem -> dataset
    label_spaces: Mapping[str, str] = field(default_factory=dict)  # problem -> label space, unless it is the closed set

    @property
    def results(self) -> dict[str, dict[str, MethodFigures]]:
        """The figures of each method, by problem and method."""
        return {problem: compared.methods for problem, compared in self.comparisons.items()}

    @property
    def made_with(self) -> dict[str, MadeWith]:
        """The parameters behind the figures of each problem."""
        return {problem: compared.made_with for problem, compared in self.comparisons.items()}

    def by_dataset(self) -> dict[str, list[str]]:
        """Return the problems of each dataset, in order."""
        return grouped((self.datasets[problem], problem) for problem in self.results)

    @property
    def has_several_datasets(self) -> bool:
        """Whether the problems belong to more than one dataset."""
        return len(self.by_dataset()) > 1

    @property
    def title(self) -> str:
        """The name of the dataset, or of the suite if there are several datasets."""
        first, *others = self.by_dataset()
        return self.name if others else dataset_title(first)

    def mean_key(self, dataset: str) -> str:
        """Return the key of the mean over a dataset's problems."""
        return f"{dataset}.mean" if self.has_several_datasets else "mean"

    def methods(self) -> dict[str, MethodFigures]:
        """Return all methods in order, each with its figures on the first problem that has it."""
        figures: dict[str, MethodFigures] = {}
        for methods in self.results.values():
            figures |= {**methods, **figures}
        return figures

    def cell(self, method: str, problems: Sequence[str]) -> Cell | None:
        """Return A_T of a method averaged over problems, or None if the method is missing or failed on one of them.

        The deviation is computed over the seeds' averages: a seed is one run of all problems.
        """
        entries = (self.results[problem].get(method) for problem in problems)
        figures = [entry for entry in entries if entry is not None and not entry.failed]
        if len(figures) < len(problems):
            return None
        mean = statistics.fmean(entry.A_T for entry in figures)
        seeds = {len(entry.A_T_per_seed) for entry in figures}
        if len(seeds) > 1 or seeds == {1}:
            return percent_cell(mean)
        runs = zip(*(entry.A_T_per_seed for entry in figures), strict=True)
        deviation = statistics.pstdev(statistics.fmean(run) for run in runs)
        return percent_cell(mean, figures[0].A_T_sd if len(figures) == 1 else deviation)

    def marked(
        self, methods: Sequence[str], problems: Sequence[str], among: Sequence[str] = ()
    ) -> dict[str, Cell | None]:
        """Return methods averaged over problems, with the best of ``among`` (default: all methods) marked.

        The best are the method with the highest mean and all methods that cannot be told apart from it: those within
        two standard errors of the difference. That error is the larger of two, both of paired differences: over the
        test images, and over the seeds, which also differ in their bases and splits. The former treats problems as
        independent; if they share a target, the latter accounts for it.
        """
        cells = {method: self.cell(method, problems) for method in (*methods, *among)}
        rivals = {method: cell for method in among or methods if (cell := cells[method])}
        leader = max(rivals, key=lambda method: rivals[method].mean, default="")
        best = {
            method
            for method, cell in rivals.items()
            if cell.texts()[0] == rivals[leader].texts()[0]
            or float(rivals[leader].mean - cell.mean) <= 2 * self._error(leader, method, problems)
        }
        return {method: cell and replace(cell, best=method in best) for method, cell in cells.items()}

    def _error(self, left: str, right: str, problems: Sequence[str]) -> float:
        """Return the standard error of the difference of two methods' means over problems, in percent."""
        variance, per_problem = 0.0, []
        for problem in problems:
            compared = self.comparisons[problem]
            a, b = compared.methods[left].A_T_per_seed, compared.methods[right].A_T_per_seed
            per_problem.append([x - y for x, y in zip(a, b, strict=True)])
            c = compared.image_covariance
            if left in c and right in c:
                variance += c[left][left] + c[right][right] - 2 * c[left][right]
        image_error = math.sqrt(max(variance, 0.0)) / len(problems)
        if len({len(seeds) for seeds in per_problem}) > 1 or len(per_problem[0]) == 1:
            return image_error
        seeds = [statistics.fmean(run) for run in zip(*per_problem, strict=True)]
        return max(image_error, statistics.stdev(seeds) / math.sqrt(len(seeds)))

    def test_images(self) -> str:
        """Say how many test images each seed has, per problem if the numbers differ."""
        numbers = {name: f"{compared.test_images:,}" for name, compared in self.comparisons.items()}
        if len(set(numbers.values())) == 1:
            return f"{next(iter(numbers.values()))} test images per seed"
        return "test images per seed: " + ", ".join(f"{name} {n}" for name, n in numbers.items())

    def failures(self, method: str) -> str:
        """Say on which problems a method failed and why; empty if it failed on none."""
        reasons = grouped(
            (methods[method].failed, problem)
            for problem, methods in self.results.items()
            if method in methods and methods[method].failed
        )
        parts = [f"on {', '.join(problems)} ({reason})" for reason, problems in reasons.items()]
        return f"failed {'; '.join(parts)}" if parts else ""

    def note(self) -> str:
        """Explain what the figures are."""
        figures = (entry for methods in self.results.values() for entry in methods.values() if not entry.failed)
        seeds = sorted({len(entry.A_T_per_seed) for entry in figures})
        spread = f"mean ± standard deviation over {' or '.join(map(str, seeds))} seeds" if seeds != [1] else "one seed"
        return f"A_T in percent: accuracy after the last task, averaged over tasks, no task id; {spread}"

    def settings(self) -> str:
        """Name the D and sigma that the figures were made with, per problem if they differ."""
        groups = grouped(
            (f"D={compared.made_with['rff.D']}, sigma={compared.made_with['rff.sigma']:g}", name)
            for name, compared in self.comparisons.items()
        )
        parts = [f"{', '.join(names)}: {text}" for text, names in groups.items()]
        return "made with " + (next(iter(groups)) if len(groups) == 1 else "; ".join(parts))


def read_suite(name: str, problems: Mapping[str, Any], domains: Mapping[str, Any]) -> SuiteResults:
    """Read the results on a suite; ``problems`` and ``domains`` are those sections of its suite.yaml."""
    return SuiteResults(
        name,
        {problem: read_comparison(name, problem) for problem in problems},
        {problem: domains[entry.target].dataset for problem, entry in problems.items()},
        {problem: entry.label_space for problem, entry in problems.items() if entry.label_space},
    )


def grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group pairs (group, name) by group; groups and names keep their order of appearance."""
    groups: dict[str, list[str]] = {}
    for group, name in pairs:
        groups.setdefault(group, []).append(name)
    return groups


def suite_columns(suite: SuiteResults) -> dict[Column, list[str]]:
    """Return the columns, each with the problems that it averages.

    There is a column per problem, a mean per dataset and, for several datasets, a summary section.
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
    """Return the paper's name of a problem, or its two domains if the paper does not have it."""
    domains = problem.replace("-", " → ", 1).replace("_", " ")
    return published.problems_of(dataset).get(problem, domains)


def dataset_title(dataset: str) -> str:
    """Return the paper's name of a dataset, or its own if the paper does not have it."""
    return published.TITLES.get(dataset, dataset)
