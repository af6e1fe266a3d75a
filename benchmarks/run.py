"""Run the benchmarks, each in a separate process; print one table and write results/benchmarks.json.

Usage: `python -m benchmarks.run [--quick] [--only NAME] [--docs]`. With `--docs` the table is also written to
docs/performance.md. A benchmark is a module of this package that is listed in `BENCHMARKS` and has a function
`rows(quick: bool) -> list[Row]`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.measure import Row

BENCHMARKS = ("images", "embed_end_to_end", "store_read", "loop", "statistics", "stages")
LIMIT = 1800  # maximum duration of one benchmark, in seconds
RESULTS = Path("results/benchmarks.json")
DOCS, MARKS = Path("docs/performance.md"), ("<!-- bench -->\n", "<!-- /bench -->")
ROOT = Path(__file__).resolve().parents[1]


def run_in_new_process(name: str, *, quick: bool) -> list[Row]:
    """Run a benchmark in a new process, so that it is not affected by memory, threads and imports of others."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "rows.json"
        command = [sys.executable, "-m", "benchmarks.run", "--only", name, "--into", str(output)]
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path}
        try:
            subprocess.run(command + ["--quick"] * quick, env=environment, stdout=sys.stderr, check=True, timeout=LIMIT)
        except subprocess.SubprocessError as error:
            return [Row(name, float("nan"), "–", "–", False, f"failed: {type(error).__name__}")]
        return [Row(**row) for row in json.loads(output.read_text())]


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    titles = ("what", "measured", "against", "wanted", "met", "detail", "`benchmarks.run --only`")
    lines = [f"| {' | '.join(titles)} |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        measured = f"{row.ratio:.2f} s" if row.unit == "s" else f"{row.ratio:.2f}{row.unit}"
        met = "–" if row.target == "–" else "yes" if row.met else "**no**"
        cells = (row.name, measured, row.baseline, row.target, met, row.detail, f"`{row.module}`")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write_results(rows: list[Row], path: Path) -> None:
    """Write the rows as a JSON list."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = [{**asdict(row), "ratio": None if math.isnan(row.ratio) else row.ratio} for row in rows]
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_docs(rows: list[Row], path: Path) -> None:
    """Replace the text between the marks of ``path`` by the table and a description of the machine."""
    before, rest = path.read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    content = f"One run of `make bench` ({machine}):\n\n{table(rows)}\n"
    path.write_text(before + MARKS[0] + content + MARKS[1] + after, encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    """Run all or the selected benchmarks; return 1 only if one could not be run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller models")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, metavar="NAME")
    parser.add_argument("--docs", action="store_true", help=f"also write the table to {DOCS}")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)  # used in the new process
    args = parser.parse_args(argv)
    if args.docs and (args.only or args.quick):
        parser.error("--docs requires a full run: remove --only and --quick")
    if args.into:
        module = importlib.import_module(f"benchmarks.{args.only[0]}")
        write_results(module.rows(quick=args.quick), args.into)
        return 0
    rows: list[Row] = []
    for name in args.only or BENCHMARKS:
        start = time.perf_counter()
        rows += [replace(row, module=name) for row in run_in_new_process(name, quick=args.quick)]
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
        write_results(rows, RESULTS)  # after each benchmark, so that an interrupted run keeps its results
    print(table(rows))
    failed = [row.name for row in rows if math.isnan(row.ratio)]
    if args.docs and failed:
        print(f"{DOCS} is unchanged, because these benchmarks failed: {', '.join(failed)}", file=sys.stderr)
    elif args.docs:
        write_docs(rows, DOCS)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
