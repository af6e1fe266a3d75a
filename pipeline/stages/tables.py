"""Stage `tables`: put the results of all problems of the suite into tables, beside the paper's published figures.

Writes results/SUITE/tables/{headline,comparison,ablation,unknown_classes,sensitivity,selection}.{csv,md,tex}. Omits
`ablation` if no ablation was compared, `unknown_classes` if no target has unknown classes, and the last two if no
problem is swept.
"""

from dataclasses import replace
from typing import Any

from pipeline import paths
from pipeline.config.params import Params
from pipeline.report.made_with import made_with, stale_notes
from pipeline.report.results import read_sweeps
from pipeline.report.suite import read_suite
from pipeline.report.suite_tables import suite_tables
from pipeline.report.table_formats import to_csv, to_latex, to_markdown, to_text
from pipeline.stage import Context, stage
from pipeline.write_aside import write_aside

FORMATS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}


def settings(params: Params) -> dict[str, Any]:
    """Return the problems with their datasets, and the settings that their figures must have been made with."""
    sections = {"data", "language", "views", "vision"}
    problems = params.problems.items()
    return {
        "made_with": made_with(params.model_dump(mode="json", include=sections)),
        "problems": {name: problem.model_dump(exclude_none=True) for name, problem in problems},
        "datasets": {name: params.domains[problem.target].dataset for name, problem in problems},
        "swept": list(params.swept),
    }


@stage(
    reads=("data", "domains", "language", "method", "problems", "rff", "swept", "views", "vision"), settings=settings
)
def tables(context: Context) -> str:
    """Write results/SUITE/tables."""
    params, suite = context.params, context.suite
    results = read_suite(suite, params.problems, params.domains)
    sweeps = {name: read_sweeps(suite, name) for name in params.swept}
    current = made_with(params.selected())
    recorded = (results.made_with, *(sweep.made_with for sweep in sweeps.values()))
    notes = [note for parameters in recorded for note in stale_notes(parameters, current, "dvc repro")]
    all_tables = [replace(table, warnings=tuple(notes)) for table in suite_tables(results, sweeps)]
    with write_aside(paths.suite_tables(suite)) as aside:
        aside.mkdir()
        for table in all_tables:
            for suffix, render in FORMATS.items():
                (aside / f"{table.name}.{suffix}").write_text(render(table), encoding="utf-8")
    return f"\n{to_text(all_tables[0])}" if all_tables else "suite.yaml has no problems"
