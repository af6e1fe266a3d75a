"""The tables of a suite, in the paper's layout: one row per method, one column per problem, then their mean.

What the paper published stands in a block of its own below what was measured; each has its own best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.report import published
from pipeline.report.comparison_files import GROUPS
from pipeline.report.published import Published
from pipeline.report.suite_results import Layout, Suite, dataset_title, decimal, layout
from pipeline.report.table import Block, Cell, Column, Row, Table, mark_best

PUBLISHED = "published (other protocol)"
HEADINGS = dict(zip(GROUPS, ("references", "ablations", "REFEREE", "peers", "heads"), strict=True))
HEADLINE = {  # method: title of its column
    "clip_zero_shot": "CLIP zero-shot",
    "source_only": "source only",
    "paper": "paper",
    "released": "released",
    "calibrated": "calibrated",
}
FULL, WITHOUT = "calibrated", "source_only"

Sweep = Mapping[float, tuple[float, float]]  # value -> A_T, sd


def comparison_table(suite: Suite, figures: Sequence[Published]) -> Table:
    """Return every method on every problem, grouped; the paper's figures below where it has the problem."""
    plan = layout(suite)
    blocks = []
    for group, heading in HEADINGS.items():
        methods = [name for name, told in suite.methods().items() if told.group == group]
        if methods:
            blocks.append(Block(heading, measured_rows(suite, plan, methods)))
    of_tables = [figure for figure in figures if figure.dataset != published.ABLATION]
    return Table(
        "comparison",
        captioned("Final accuracy of every method", suite),
        "method",
        plan.columns,
        (*mark_best(blocks, plan.columns), *published_blocks(suite, plan, of_tables)),
        (suite.note(),),
        plan.sections,
    )


def ablation_table(suite: Suite, figures: Sequence[Published]) -> Table | None:
    """Return `calibrated` and its ablations, with the change of the mean; None where none was measured."""
    plan = layout(suite)
    methods = [name for name, told in suite.methods().items() if told.group == "ablation"]
    if not methods:
        return None
    if FULL in suite.methods():
        methods = [FULL, *methods]
    note = f"change: of the mean over all problems, against {FULL}"
    change = Column("change", "change", plan.columns[-1].section, signed=True, note=note)
    columns = (*plan.columns, change)
    whole = suite.cell(FULL, list(suite.results))
    rows = []
    for row in measured_rows(suite, plan, methods):
        own = suite.cell(row.key, list(suite.results))
        told = Cell(own.mean - whole.mean) if own and whole and row.key != FULL else None
        rows.append(replace(row, cells=(*row.cells, told)))
    of_ablation = [figure for figure in figures if figure.dataset == published.ABLATION]
    blocks = [
        replace(block, rows=tuple(replace(row, cells=(*row.cells, None)) for row in block.rows))
        for block in published_blocks(suite, plan, of_ablation)
    ]
    return Table(
        "ablation",
        captioned("Ablation of REFEREE's components", suite),
        "method",
        columns,
        (*mark_best([Block("", tuple(rows))], columns), *blocks),
        (suite.note(),),
        plan.sections,
    )


def headline_table(suite: Suite) -> Table:
    """Return the short table: a row per problem, the variants side by side, the gain over the source model."""
    columns = (
        *(Column(method, title) for method, title in HEADLINE.items()),
        Column("gain", "gain", signed=True, note=f"gain: {FULL} over source only"),
    )

    def row(key: str, title: str, problems: Sequence[str]) -> Row:
        cells = [suite.cell(method, problems) for method in HEADLINE]
        full, without = suite.cell(FULL, problems), suite.cell(WITHOUT, problems)
        gain = Cell(full.mean - without.mean) if full and without else None
        return Row(key, title, (*best_of_row(cells), gain))

    failed = [f"{name}: {why}" for name in HEADLINE if (why := suite.failures(name))]
    groups = suite.by_dataset()
    several = len(groups) > 1
    blocks = []
    for dataset, members in groups.items():
        rows = tuple(row(problem, problem, [problem]) for problem in members)
        blocks.append(Block(dataset_title(dataset) if several else "", rows))
        if len(members) > 1:
            mean = row(f"{dataset}.mean" if several else "mean", "mean", members)
            blocks.append(Block("", (mean,)))
    if several:
        whole = row("mean", f"mean of {len(suite.results)} problems", list(suite.results))
        blocks.append(Block("all datasets", (whole,)))
    return Table(
        "headline",
        f"Final accuracy, {suite.title}",
        "problem",
        columns,
        tuple(blocks),
        (suite.note(), *failed),
        best="the best of each row",
    )


def sensitivity_table(sweeps: Mapping[str, Mapping[str, Sweep]]) -> Table:
    """Return A_T over D and over sigma: problem -> name of the parameter -> sweep."""
    names = list(dict.fromkeys(name for of_problem in sweeps.values() for name in of_problem))
    values = {name: sorted({v for s in sweeps.values() for v in s.get(name, {})}) for name in names}
    columns = [Column(f"{n}={v:g}", f"{n} = {v:g}", n) for n in names for v in values[n]]
    rows = []
    for problem, of_problem in sweeps.items():
        cells: list[Cell | None] = []
        for name in names:
            told = [of_problem.get(name, {}).get(value) for value in values[name]]
            cells += best_of_row([one and Cell(decimal(one[0]), decimal(one[1])) for one in told])
        rows.append(Row(problem, problem, tuple(cells)))
    return Table(
        "sensitivity",
        "Sensitivity of the final accuracy",
        "problem",
        tuple(columns),
        (Block("", tuple(rows)),),
        ("A_T in percent, mean ± standard deviation over the seeds",),
        tuple((name, f"over {name}") for name in names),
        best="the best of each row",
    )


def measured_rows(suite: Suite, plan: Layout, methods: Sequence[str]) -> tuple[Row, ...]:
    """Return a row per method."""
    known = suite.methods()
    return tuple(
        Row(
            method,
            known[method].title,
            tuple(suite.cell(method, plan.problems[column.key]) for column in plan.columns),
            known[method].source_samples,
            suite.failures(method),
            always=bool(suite.failures(method)),
        )
        for method in methods
    )


def published_blocks(suite: Suite, plan: Layout, figures: Sequence[Published]) -> list[Block]:
    """Return the block of the paper's figures for the problems shown, or nothing if it has none of them.

    A dataset's average is shown only if its problems are the paper's, all of them.
    """
    shown: dict[tuple[str, str], Published] = {}
    for figure in figures:
        dataset = figure.dataset.removesuffix("-ablation")
        members = suite.by_dataset().get(dataset, [])
        if figure.problem in members:
            shown[figure.problem, figure.title] = figure
        elif figure.problem == published.AVERAGE and set(members) == set(
            published.problems_of(dataset)
        ):
            several = len(suite.by_dataset()) > 1
            shown[f"{dataset}.mean" if several else "mean", figure.title] = figure
    rows = []
    for title in dict.fromkeys(figure.title for figure in shown.values()):
        told = [shown.get((column.key, title)) for column in plan.columns]
        first = next(one for one in told if one)
        cells = tuple(Cell(one.mean, one.sd) if one else None for one in told)
        rows.append(Row(first.method, title, cells, first.source_samples, first.note))
    blocks = [Block(PUBLISHED, tuple(rows), published=True, digits=None)] if rows else []
    return mark_best(blocks, plan.columns)


def best_of_row(cells: Sequence[Cell | None]) -> list[Cell | None]:
    """Mark the highest of a row's figures."""
    columns = (Column("", ""),)
    upright = Block("", tuple(Row("", "", (cell,)) for cell in cells))
    return [row.cells[0] for row in mark_best([upright], columns)[0].rows]


def captioned(caption: str, suite: Suite) -> str:
    """Return a caption with the dataset's name; of several, each part of the table gets its own."""
    return f"{caption}, {suite.title}" if len(suite.by_dataset()) == 1 else caption
