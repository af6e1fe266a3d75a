"""The tables of a suite, laid out as in the paper: a row per method, a column per problem, then their mean.

Published figures are in a block of their own below the measured ones; each has its own best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from pipeline.report import published
from pipeline.report.compared_methods import GROUPS, Sweep
from pipeline.report.figures import Cell, decimal
from pipeline.report.published import Published
from pipeline.report.suite import Suite, dataset_title, suite_columns
from pipeline.report.table import Block, Column, Row, Table, mark_best_of_columns

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
ABLATIONS = "no CLIP, no views, no weights: calibrated without that part"
FULL, WITHOUT = "calibrated", "source_only"


def suite_tables(
    suite: Suite, sweeps: Mapping[str, Mapping[str, Sweep]], figures: Sequence[Published]
) -> list[Table]:
    """Return all tables of a suite.

    Parameters
    ----------
    suite : Suite
        What `compare` measured; at least one problem.
    sweeps : mapping
        Problem -> ``D`` or ``sigma`` -> sweep, of the problems for which `sensitivity` ran.
    figures : sequence of Published
        From `read_published`.

    Returns
    -------
    list of Table
        Headline, comparison, ablation (if ablations were compared) and sensitivity (if there are sweeps).
    """
    tables = [headline_table(suite), comparison_table(suite, figures)]
    if any(entry.group == "ablation" for entry in suite.methods().values()):
        tables.append(ablation_table(suite, figures))
    return [*tables, sensitivity_table(sweeps, [suite.test_images()])] if sweeps else tables


def comparison_table(suite: Suite, figures: Sequence[Published]) -> Table:
    """Return every method on every problem, grouped, and the paper's figures where it has the problem."""
    columns = tuple(suite_columns(suite))
    blocks = []
    known = suite.methods()
    fair = [name for name, entry in known.items() if entry.group != "ceiling"]
    for group, heading in GROUPS.items():
        methods = [name for name, entry in known.items() if entry.group == group]
        if methods:
            # the ceiling, which reads labels, is never marked as the best
            blocks.append(Block(heading, _measured_rows(suite, methods, fair)))
    printed = [figure for figure in figures if figure.dataset != published.ABLATION]
    return Table(
        "comparison",
        _captioned("Final accuracy of every method", suite),
        "method",
        columns,
        (*blocks, *_published_blocks(suite, columns, printed)),
        (suite.note(), suite.test_images(), suite.settings()),
    )


def ablation_table(suite: Suite, figures: Sequence[Published]) -> Table:
    """Return `calibrated` and its ablations with the change of the mean over all problems."""
    columns = tuple(suite_columns(suite))
    note = f"change: of the mean over all problems, against {FULL}"
    columns += (replace(columns[-1], key="change", title="change", signed=True, note=note),)
    known, problems = suite.methods(), list(suite.results)
    methods = [name for name, entry in known.items() if entry.group == "ablation"]
    full = suite.cell(FULL, problems)
    rows = []
    methods = [FULL, *methods] if FULL in known else methods
    for row in _measured_rows(suite, methods, methods):
        own = suite.cell(row.key, problems)
        change = Cell(own.mean - full.mean) if own and full and row.key != FULL else None
        rows.append(replace(row, cells=(*row.cells, change)))
    measured = [Block("", tuple(rows))]
    printed = [figure for figure in figures if figure.dataset == published.ABLATION]
    return Table(
        "ablation",
        _captioned("Ablation of REFEREE's components", suite),
        "method",
        columns,
        (*measured, *_published_blocks(suite, columns, printed)),
        (suite.note(), suite.test_images(), suite.settings()),
    )


def headline_table(suite: Suite) -> Table:
    """Return the short table: a row per problem, the variants side by side, the gain over the source model."""
    compared = [name for name in HEADLINE if name in suite.methods()]
    ablated = any(name.startswith("no_") for name in compared)
    columns = (
        Column("n", "n", count=True, note="n: test images per seed"),
        *(Column(name, HEADLINE[name]) for name in compared),
        Column("gain", "gain", signed=True, note=f"gain: {FULL} over source only"),
    )
    blocks = []
    for dataset, members in suite.by_dataset().items():
        rows = tuple(_headline_row(suite, problem, problem, [problem]) for problem in members)
        blocks.append(Block(dataset_title(dataset) if suite.has_several_datasets else "", rows))
        if len(members) > 1:
            mean = _headline_row(suite, suite.mean_key(dataset), "mean", members)
            blocks.append(Block("", (mean,)))
    if suite.has_several_datasets:
        title = f"mean of {len(suite.results)} problems"
        mean = _headline_row(suite, "mean", title, list(suite.results))
        blocks.append(Block("all datasets", (mean,)))
    failed = [f"{name}: {reason}" for name in HEADLINE if (reason := suite.failures(name))]
    return Table(
        "headline",
        f"Final accuracy, {suite.title}",
        "problem",
        columns,
        tuple(blocks),
        (suite.note(), suite.settings(), *([ABLATIONS] if ablated else []), *failed),
        best="the best of each row",
    )


def _headline_row(suite: Suite, key: str, title: str, problems: Sequence[str]) -> Row:
    """Return the variants averaged over some problems."""
    compared = [name for name in HEADLINE if name in suite.methods()]
    full, without = suite.cell(FULL, problems), suite.cell(WITHOUT, problems)
    gain = Cell(full.mean - without.mean) if full and without else None
    n = Cell(Decimal(suite.comparisons[problems[0]].test_images), digits=0)
    of_problem = n if len(problems) == 1 else None
    return Row(key, title, (of_problem, *_marked_row(suite, compared, problems), gain))


def _marked_row(suite: Suite, methods: Sequence[str], problems: Sequence[str]) -> list[Cell | None]:
    """Return methods averaged over problems, the best of them marked."""
    best = suite.best(methods, problems)
    cells = [suite.cell(method, problems) for method in methods]
    return [cell and replace(cell, best=m in best) for m, cell in zip(methods, cells, strict=True)]


def sensitivity_table(
    sweeps: Mapping[str, Mapping[str, Sweep]], notes: Sequence[str] = ()
) -> Table:
    """Return A_T over D and over sigma; `sweeps` is problem -> name of the parameter -> sweep.

    No value is marked as the best: a sweep is a curve, and its top would be chosen on test images.
    """
    names = list(dict.fromkeys(name for by_name in sweeps.values() for name in by_name))
    values = {
        name: sorted({value for by_name in sweeps.values() for value in by_name.get(name, {})})
        for name in names
    }
    columns = [
        Column(f"{n}={v:g}", f"{n} = {v:g}", n, f"over {n}") for n in names for v in values[n]
    ]
    rows = []
    for problem, by_name in sweeps.items():
        cells: list[Cell | None] = []
        for name in names:
            figures = [by_name.get(name, {}).get(value) for value in values[name]]
            cells += [f and Cell(decimal(f[0]), decimal(f[1])) for f in figures]
        rows.append(Row(problem, problem, tuple(cells)))
    return Table(
        "sensitivity",
        "Sensitivity of the final accuracy",
        "problem",
        tuple(columns),
        (Block("", tuple(rows)),),
        ("A_T in percent, mean ± standard deviation over the seeds", *notes),
    )


def _measured_rows(suite: Suite, methods: Sequence[str], among: Sequence[str]) -> tuple[Row, ...]:
    """Return methods as rows, those marked that are the best of ``among`` in a column."""
    known, columns = suite.methods(), suite_columns(suite)
    best = [suite.best(among, problems) for problems in columns.values()]
    cells = {
        method: [suite.cell(method, problems) for problems in columns.values()]
        for method in methods
    }
    return tuple(
        Row(
            method,
            known[method].title,
            tuple(
                cell and replace(cell, best=method in names)
                for cell, names in zip(cells[method], best, strict=True)
            ),
            known[method].source_samples,
            suite.failures(method),
            always=bool(suite.failures(method)),
        )
        for method in methods
    )


def _published_blocks(
    suite: Suite, columns: Sequence[Column], figures: Sequence[Published]
) -> list[Block]:
    """Return the block of the paper's figures for the suite's problems, or nothing if it has none of them.

    A dataset's average is shown only if its problems are the paper's, all of them.
    """
    printed: dict[tuple[str, str], Published] = {}  # by column and title
    groups = suite.by_dataset()
    for figure in figures:
        dataset = figure.dataset.removesuffix("-ablation")
        members = groups.get(dataset, [])
        if figure.problem in members:
            printed[figure.problem, figure.title] = figure
        elif figure.problem == published.AVERAGE and {*members} == {
            *published.problems_of(dataset)
        }:
            printed[suite.mean_key(dataset), figure.title] = figure
    rows = []
    for title in dict.fromkeys(figure.title for figure in printed.values()):
        entries = [printed.get((column.key, title)) for column in columns]
        first = next(entry for entry in entries if entry)
        cells = tuple(
            Cell(entry.mean, entry.sd, digits=None) if entry else None for entry in entries
        )
        rows.append(Row(first.method, title, cells, first.source_samples, first.note))
    blocks = [Block(PUBLISHED, tuple(rows), published=True)] if rows else []
    return mark_best_of_columns(blocks, columns)


def _captioned(caption: str, suite: Suite) -> str:
    """Return a caption with the dataset's name; of several datasets, each part of the table gets its own."""
    return caption if suite.has_several_datasets else f"{caption}, {suite.title}"
