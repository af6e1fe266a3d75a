"""Stage `tables`: the suite's tables from every problem's comparison, with the paper's figures apart.

Writes results/suite/{comparison,ablation,headline,sensitivity}.{csv,md,tex}. `ablation` is left out where no ablation
was compared, `sensitivity` where no problem is listed for it.
"""

from __future__ import annotations

import argparse
import sys

from pipeline.errors import exits_cleanly
from pipeline.params import Params, load_params
from pipeline.report.comparison_files import read_comparison, read_sensitivity
from pipeline.report.published import read_published
from pipeline.report.suite_results import Suite
from pipeline.report.suite_tables import (
    Sweep,
    ablation_table,
    comparison_table,
    headline_table,
    sensitivity_table,
)
from pipeline.report.table import Table
from pipeline.report.table_formats import to_csv, to_latex, to_markdown, to_text
from pipeline.stages import places
from pipeline.write_aside import write_aside

FORMATS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}
SWEPT = ("D", "sigma")


def read_suite(params: Params) -> Suite:
    """Return what was measured on the problems of params.yaml, and on no others that lie about."""
    return Suite(
        params.suite,
        {
            name: read_comparison(places.comparison(name), f"compare@{name}")
            for name in params.problems
        },
        {name: params.domains[problem.target].dataset for name, problem in params.problems.items()},
    )


def read_sweeps(params: Params) -> dict[str, dict[str, Sweep]]:
    """Return problem -> D or sigma -> sweep, of the swept problems."""
    return {
        name: {
            swept: read_sensitivity(
                places.sensitivity(name) / f"{swept}.csv", swept, f"sensitivity@{name}"
            )
            for swept in SWEPT
        }
        for name in params.swept
    }


def suite_tables(params: Params) -> list[Table]:
    """Return the tables there are figures for; none without problems."""
    if not params.problems:
        return []
    suite, figures, sweeps = read_suite(params), read_published(), read_sweeps(params)
    tables = [
        headline_table(suite),
        comparison_table(suite, figures),
        ablation_table(suite, figures),
        sensitivity_table(sweeps) if sweeps else None,
    ]
    return [table for table in tables if table is not None]


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write results/suite."""
    argparse.ArgumentParser(
        prog="python -m pipeline.stages.tables", description=__doc__
    ).parse_args(argv)
    tables = suite_tables(load_params())
    with write_aside(places.suite_tables()) as aside:
        aside.mkdir()
        for table in tables:
            for ending, render in FORMATS.items():
                (aside / f"{table.name}.{ending}").write_text(render(table), encoding="utf-8")
    sys.stdout.write(to_text(tables[0]) if tables else "tables: params.yaml has no problems\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
