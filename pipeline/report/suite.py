"""What was measured on the problems of a suite, averaged over problems, and the columns of its tables."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.report import published
from pipeline.report.made_with import MadeWith
from pipeline.report.results import Comparison, MethodFigures, read_comparison
from pipeline.report.table import Cell, Column, percent_cell

MEAN = "mean: over the problems; its deviation is that of the seeds' means"
SUMMARY = ("all", "all datasets")  # the section that sums up, and its title


@dataclass(frozen=True)
class SuiteResults:
    """What was measured on a suite."""

    name: str
    comparisons: Mapping[str, Comparison]  # by problem
    datasets: Mapping[str, str]  # the dataset of each problem
    # of each problem that is not of the closed set
    label_spaces: Mapping[str, str] = field(default_factory=dict)

    @property
    def results(self) -> dict[str, dict[str, MethodFigures]]:
        """Problem -> method -> figures."""
        return {problem: compared.methods for problem, compared in self.comparisons.items()}

    @property
    def made_with(self) -> dict[str, MadeWith]:
        """Problem -> the parameters behind its figures."""
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
        entries = (self.results[problem].get(method) for problem in problems)
        figures = [entry for entry in entries if entry is not None and not entry.failed]
        if len(figures) < len(problems):
            return None
        mean = statistics.fmean(entry.A_T for entry in figures)
        seeds = {len(entry.A_T_per_seed) for entry in figures}
        if len(seeds) > 1 or seeds == {1}:
            return percent_cell(mean)
        runs = zip(*(entry.A_T_per_seed for entry in figures), strict=True)
        of_seeds = statistics.pstdev(statistics.fmean(run) for run in runs)
        return percent_cell(mean, figures[0].A_T_sd if len(figures) == 1 else of_seeds)

    def marked(
        self, methods: Sequence[str], problems: Sequence[str], among: Sequence[str] = ()
    ) -> dict[str, Cell | None]:
        """Return methods averaged over problems, marked those that are best of ``among``, all methods if omitted.

        The best is the method of the highest mean, and all that cannot be told apart from it: where the difference is
        at most two of its standard errors. The error is the larger one of two, both of paired differences: over the
        test images, and over the seeds, which also differ in their bases and splits. Problems count as independent;
        where they share a target, the seeds tell.
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

    def _error(self, one: str, other: str, problems: Sequence[str]) -> float:
        """Return the standard error of the difference of two methods' means over problems, in percent."""
        variance, per_problem = 0.0, []
        for problem in problems:
            compared = self.comparisons[problem]
            a, b = compared.methods[one].A_T_per_seed, compared.methods[other].A_T_per_seed
            per_problem.append([x - y for x, y in zip(a, b, strict=True)])
            c = compared.image_covariance
            if one in c and other in c:
                variance += c[one][one] + c[other][other] - 2 * c[one][other]
        of_images = math.sqrt(max(variance, 0.0)) / len(problems)
        if len({len(seeds) for seeds in per_problem}) > 1 or len(per_problem[0]) == 1:
            return of_images
        seeds = [statistics.fmean(run) for run in zip(*per_problem, strict=True)]
        return max(of_images, statistics.stdev(seeds) / math.sqrt(len(seeds)))

    def test_images(self) -> str:
        """Return how many test images a seed has, of each problem."""
        numbers = {name: f"{compared.test_images:,}" for name, compared in self.comparisons.items()}
        if len(set(numbers.values())) == 1:
            return f"{next(iter(numbers.values()))} test images per seed"
        return "test images per seed: " + ", ".join(f"{name} {n}" for name, n in numbers.items())

    def failures(self, method: str) -> str:
        """Return on which problems a method could not run, and why; empty where it ran on all."""
        reasons = grouped(
            (methods[method].failed, problem)
            for problem, methods in self.results.items()
            if method in methods and methods[method].failed
        )
        parts = [f"on {', '.join(problems)} ({reason})" for reason, problems in reasons.items()]
        return f"failed {'; '.join(parts)}" if parts else ""

    def note(self) -> str:
        """Return what the figures are."""
        figures = (one for methods in self.results.values() for one in methods.values() if not one.failed)
        seeds = sorted({len(one.A_T_per_seed) for one in figures})
        spread = f"mean ± standard deviation over {' or '.join(map(str, seeds))} seeds" if seeds != [1] else "one seed"
        return f"A_T in percent: accuracy averaged over all tasks after the last one, no task id; {spread}"

    def settings(self) -> str:
        """Return the D and sigma that the figures were made with, of each problem where they differ."""
        groups = grouped(
            (f"D={compared.made_with['rff.D']}, sigma={compared.made_with['rff.sigma']:g}", name)
            for name, compared in self.comparisons.items()
        )
        each = [f"{', '.join(names)}: {text}" for text, names in groups.items()]
        return "made with " + (next(iter(groups)) if len(groups) == 1 else "; ".join(each))


def read_suite(name: str, problems: Mapping[str, Any], domains: Mapping[str, Any]) -> SuiteResults:
    """Read what was measured on a suite; ``problems`` and ``domains`` are its sections of suite.yaml."""
    return SuiteResults(
        name,
        {problem: read_comparison(name, problem) for problem in problems},
        {problem: domains[one.target].dataset for problem, one in problems.items()},
        {problem: one.label_space for problem, one in problems.items() if one.label_space},
    )


def grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the names of each group, both in order of appearance; a pair is (group, name)."""
    groups: dict[str, list[str]] = {}
    for group, name in pairs:
        groups.setdefault(group, []).append(name)
    return groups


def suite_columns(suite: SuiteResults) -> dict[Column, list[str]]:
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
    domains = problem.replace("-", " → ", 1).replace("_", " ")
    return published.problems_of(dataset).get(problem, domains)


def dataset_title(dataset: str) -> str:
    """Return a dataset's name as the paper writes it, or as it is."""
    return published.TITLES.get(dataset, dataset)
