"""Build the tables of a suite, laid out as in the paper: a row per method, a column per problem, then their mean.

Published figures have a block of their own below the measured ones, and the best is marked in each separately.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from pipeline.report import published
from pipeline.report.problem_figures import MEASURES
from pipeline.report.published import Published
from pipeline.report.results import GROUPS, Sweeps
from pipeline.report.suite import SuiteResults, dataset_title, grouped, suite_columns
from pipeline.report.table import Block, Cell, Column, Row, Table, percent_cell

PUBLISHED = "published (other protocol)"
HEADLINE = {  # method -> title of its column
    "clip_zero_shot": "CLIP",
    "source_only": "source only",
    "paper": "paper",
    "released": "released",
    "calibrated": "calibrated",
    "no_clip": "no CLIP",
    "no_augmentation": "no views",
    "no_weighting": "no weights",
}
ABLATIONS = "no CLIP, no views, no weights: calibrated without that component"
UNKNOWN_NOTE = (
    "columns named after a problem: H-score after the last task in percent, mean ± standard deviation over the seeds; "
    "other columns, means over the problems: accuracy on shared classes (mean per class; a rejected image counts as "
    "wrong), share of unknown images that are rejected, harmonic mean of the two, AUROC of the rejection score"
)
FULL, BASELINE = "calibrated", "source_only"
SELECTION_NOTES = (
    "by labels: the value with the highest A_T",
    "regret: A_T of that value minus A_T of the chosen one, in points",
    "rank: Spearman's rank correlation between score and A_T over the values",
)
CHANGE = f"change: mean over all problems minus that of {FULL}, in points"


def suite_tables(suite: SuiteResults, sweeps: Mapping[str, Sweeps]) -> list[Table]:
    """Return the tables of a suite, except those without figures."""
    if not suite.results:
        return []
    comparison, *unknown = method_tables(suite)
    ablated = any(entry.group == "ablation" for entry in suite.methods().values())
    return [
        headline_table(suite),
        comparison,
        *([ablation_table(suite)] if ablated else []),
        *unknown,
        *([sensitivity_table(sweeps, suite.test_images())] if sweeps else []),
        *([selection_table(sweeps)] if any(len(sweep.choices) for sweep in sweeps.values()) else []),
    ]


def method_tables(suite: SuiteResults) -> list[Table]:
    """Return the tables with a row per method: the comparison and, if any method can reject images, unknown classes."""
    unknown = any(entry.label_space for entry in suite.methods().values())
    return [comparison_table(suite), *([unknown_table(suite)] if unknown else [])] if suite.results else []


def comparison_table(suite: SuiteResults) -> Table:
    """Return the accuracy of every method on every problem, by group, and the paper's figures on the same problems."""
    # methods that may answer `unknown` have a table of their own
    known = {name: entry for name, entry in suite.methods().items() if not entry.label_space}
    fair = [name for name, entry in known.items() if entry.group != "ceiling"]  # a ceiling reads labels
    groups = grouped((entry.group, name) for name, entry in known.items())
    blocks = [
        Block(title, _measured_rows(suite, groups[name], fair)) for name, title in GROUPS.items() if name in groups
    ]
    return _by_method("comparison", "Final accuracy of every method", suite, blocks)


def unknown_table(suite: SuiteResults) -> Table:
    """Return H-scores per problem, and mean measures, of the methods that may answer `unknown`, by label space."""
    methods = {name: entry for name, entry in suite.methods().items() if entry.label_space}
    spaces = grouped(
        (suite.label_spaces[problem], problem)
        for problem, compared in suite.results.items()
        if any(entry.label_space for entry in compared.values())
    )
    columns: dict[Column, tuple[str, list[str]]] = {}  # -> the measure, and the problems to average
    for space, problems in spaces.items():
        columns |= {Column(p, p, space, space): ("h_score", [p]) for p in problems}
        for measure, title in MEASURES.items():
            columns[Column(f"{space}.{measure}.mean", title, space, space)] = (measure, problems)

    def cell(method: str, column: Column, measure: str, problems: Sequence[str]) -> Cell | None:
        entries = (suite.results[problem].get(method) for problem in problems)
        figures = [entry.label_space for entry in entries if entry is not None and entry.label_space is not None]
        values = [getattr(space, measure) for space in figures]
        if len(values) < len(problems) or None in values:
            return None
        return percent_cell(statistics.fmean(values), figures[0].h_score_sd if column.key in problems else None)

    def row(method: str) -> Row:
        cells = {column.key: cell(method, column, *content) for column, content in columns.items()}
        return Row(method, methods[method].title, cells, note=suite.failures(method))

    groups = grouped((entry.group, name) for name, entry in methods.items())
    blocks = tuple(Block(GROUPS[group], tuple(map(row, names))) for group, names in groups.items())
    caption, notes = f"Images of unknown classes, {suite.title}", (UNKNOWN_NOTE, suite.settings())
    return Table("unknown_classes", caption, "method", tuple(columns), blocks, notes)


def ablation_table(suite: SuiteResults) -> Table:
    """Return `calibrated` and its ablations, with the change of the mean over all problems."""
    change = replace([*suite_columns(suite)][-1], key="change", title="change", signed=True, note=CHANGE)
    methods = [name for name, entry in suite.methods().items() if name == FULL or entry.group == "ablation"]
    methods.sort(key=lambda name: name != FULL)
    changes = {name: _gain(suite, name, FULL, [*suite.results]) for name in methods if name != FULL}
    measured = _measured_rows(suite, methods, methods)
    rows = tuple(replace(row, cells={**row.cells, "change": changes.get(row.key)}) for row in measured)
    return _by_method("ablation", "Ablation of REFEREE's components", suite, [Block("", rows)], change)


def _by_method(name: str, caption: str, suite: SuiteResults, measured: Sequence[Block], *extra: Column) -> Table:
    """Return a table with a row per method, with published figures below the measured ones."""
    if not suite.has_several_datasets:  # otherwise each part of the table gets its own name
        caption = f"{caption}, {suite.title}"
    blocks = (*measured, *_published_blocks(suite, ablation=name == "ablation"))
    notes = (suite.note(), suite.test_images(), suite.settings())
    return Table(name, caption, "method", (*suite_columns(suite), *extra), blocks, notes)


def _gain(suite: SuiteResults, method: str, baseline: str, problems: Sequence[str]) -> Cell | None:
    """Return A_T of a method minus A_T of a baseline, averaged over problems."""
    left, right = suite.cell(method, problems), suite.cell(baseline, problems)
    return Cell(left.mean - right.mean) if left and right else None


def headline_table(suite: SuiteResults) -> Table:
    """Return the short table: a row per problem, the variants side by side, and the gain over the source model."""
    compared = [name for name in HEADLINE if name in suite.methods()]
    columns = (
        Column("n", "n", count=True, note="n: test images per seed"),
        *(Column(name, HEADLINE[name]) for name in compared),
        Column("gain", "gain", signed=True, note=f"gain: {FULL} minus source only, in points"),
    )

    def row(key: str, title: str, problems: Sequence[str]) -> Row:
        n = Cell(Decimal(suite.comparisons[problems[0]].test_images), digits=0) if len(problems) == 1 else None
        gain = _gain(suite, FULL, BASELINE, problems)
        return Row(key, title, {"n": n, **suite.marked(compared, problems), "gain": gain})

    blocks, several = [], suite.has_several_datasets
    for dataset, members in suite.by_dataset().items():
        rows = tuple(row(problem, problem, [problem]) for problem in members)
        blocks.append(Block(dataset_title(dataset) if several else "", rows))
        if len(members) > 1:
            blocks.append(Block("", (row(suite.mean_key(dataset), "mean", members),)))
    if several:
        title = f"mean of {len(suite.results)} problems"
        blocks.append(Block("all datasets", (row("mean", title, list(suite.results)),)))
    ablated = [ABLATIONS] if any(name.startswith("no_") for name in compared) else []
    failed = [f"{name}: {reason}" for name in HEADLINE if (reason := suite.failures(name))]
    notes = (suite.note(), suite.settings(), *ablated, *failed)
    caption = f"Final accuracy, {suite.title}"
    return Table("headline", caption, "problem", columns, tuple(blocks), notes, best="the best of each row")


def sensitivity_table(sweeps: Mapping[str, Sweeps], test_images: str) -> Table:
    """Return A_T of the swept problems over D and over sigma.

    No value is marked as the best: the top of a curve would be chosen on test images.
    """
    values = sorted({(n, v) for sweep in sweeps.values() for n, table in sweep.accuracy.items() for v in table[n]})
    columns = tuple(Column(f"{n}={v:g}", f"{n} = {v:g}", n, f"over {n}") for n, v in values)

    def row(problem: str, sweep: Sweeps) -> Row:
        figures = ((n, *line) for n, table in sweep.accuracy.items() for line in table.to_numpy().tolist())
        return Row(problem, problem, {f"{n}={v:g}": percent_cell(a_t, sd) for n, v, a_t, sd in figures})

    rows = tuple(row(problem, sweep) for problem, sweep in sweeps.items())
    notes = ("A_T in percent, mean ± standard deviation over the seeds", test_images)
    caption = "Sensitivity of the final accuracy"
    return Table("sensitivity", caption, "problem", columns, (Block("", rows),), notes)


def selection_table(sweeps: Mapping[str, Sweeps]) -> Table:
    """Return the value that each label-free score chooses on each problem, and its regret; a section per setting."""
    by_problem = {name: sweep.choices.to_dict("records") for name, sweep in sweeps.items()}
    all_choices = [choice for choices in by_problem.values() for choice in choices]
    settings = dict.fromkeys(choice["setting"] for choice in all_choices)
    scores = dict.fromkeys(choice["score"] for choice in all_choices)
    titles = {"chosen": "chosen", "best": "by labels", "regret": "regret", "rank": "rank"}

    def row(problem: str, score: str, choices: Sequence[Mapping[Any, Any]]) -> Row:
        cells: dict[str, Cell] = {}
        for setting in settings:
            matching = [c for c in choices if (c["setting"], c["score"]) == (setting, score)]
            if len(matching) == 1:
                cells |= {f"{setting}.{key}": Cell(matching[0][key]) for key in ("chosen", "best")}
            ranks = [float(c["rank_correlation"]) for c in matching if c["rank_correlation"]]
            for key, figures in (("regret", [c["regret"] for c in matching]), ("rank", ranks)):
                if figures:
                    cells[f"{setting}.{key}"] = percent_cell(statistics.fmean(figures), digits=2)
        return Row(f"{problem}.{score}", score.replace("_", " "), cells)

    columns = tuple(
        Column(f"{setting}.{key}", title, setting, f"values of {setting}", count=True)
        for setting in settings
        for key, title in titles.items()
    )
    groups = {**by_problem, "mean": all_choices} if len(by_problem) > 1 else by_problem
    blocks = tuple(Block(name, tuple(row(name, score, group) for score in scores)) for name, group in groups.items())
    caption = "Values chosen without target labels"
    return Table("selection", caption, "score", columns, blocks, SELECTION_NOTES)


def _measured_rows(suite: SuiteResults, methods: Sequence[str], among: Sequence[str]) -> tuple[Row, ...]:
    """Return methods as rows, with the best of ``among`` marked in each column."""
    known = suite.methods()
    columns = {column.key: suite.marked(methods, problems, among) for column, problems in suite_columns(suite).items()}
    return tuple(
        Row(
            method,
            known[method].title,
            {key: column[method] for key, column in columns.items()},
            known[method].source_samples,
            failed := suite.failures(method),
            always_shown=bool(failed),
        )
        for method in methods
    )


def _published_blocks(suite: SuiteResults, *, ablation: bool) -> list[Block]:
    """Return the block of the paper's figures on the suite's problems, or nothing if there are no such figures.

    A dataset's average is shown only if the suite has exactly the paper's problems on it.
    """
    printed: dict[str, dict[str, Published]] = {}  # title -> column -> figure
    best: dict[str, Decimal] = {}  # column -> highest figure
    groups = suite.by_dataset()
    for figure in published.read_published():
        if (figure.dataset == published.ABLATION) != ablation:
            continue
        dataset = figure.dataset.removesuffix("-ablation")
        members, column = groups.get(dataset, []), figure.problem
        if column == published.AVERAGE and {*members} == {*published.problems_of(dataset)}:
            column = suite.mean_key(dataset)
        elif column not in members:
            continue
        printed.setdefault(figure.title, {})[column] = figure
        best[column] = max(figure.mean, best.get(column, figure.mean))
    rows = []
    for title, row in printed.items():
        first, *_ = row.values()
        cells = {column: Cell(f.mean, f.sd, None, best=f.mean == best[column]) for column, f in row.items()}
        rows.append(Row(first.method, title, cells, first.source_samples, first.note))
    return [Block(PUBLISHED, tuple(rows), published=True)] if rows else []
