"""Print accuracy and time of every compared method, the table of docs/evidence.md.

Run ``python -m benchmarks.method_table`` in a project after ``dvc repro compare``. Accuracy is read from the stage's
results: A_T in percent, the mean over the problems ± its standard error over the seeds. Times are measured here,
because results must not differ between runs: CPU seconds of one thread for the first seed of a problem, averaged over
the problems. Most methods share the source model and first labels of `calibrated`, which have a separate row.
"""

from __future__ import annotations

import json
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy starts
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import seconds
from pipeline import paths
from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.referee_variants import first_labels
from pipeline.comparison.registry import compared_method
from pipeline.config.params import load_params
from pipeline.errors import RefereeError
from pipeline.problem.problem import LabelledProblem
from pipeline.problem.seed import Seed
from pipeline.stage import open_project
from pipeline.store.basis_file import read_bases

SHARED = "(source model and first labels)"


def times(problem: LabelledProblem, source: str, methods: list[str]) -> dict[str, float]:
    """Return the CPU seconds of each method on the first seed of a problem."""
    basis = read_bases(paths.bases(source)).basis(0)
    seed = problem.seed(0, basis)
    ceiling = LabelledProblem(problem.name, problem.target, problem.target)
    by_method = {SHARED: seconds(lambda: first_labels(seed), time.process_time)}
    for name in methods:
        method = compared_method(name)
        method_seed = ceiling.seed(0, basis) if method.group == "ceiling" else seed
        by_method[name] = seconds(lambda m=method, s=method_seed: attempt(m, s), time.process_time)
    return by_method


def attempt(method: ComparedMethod, seed: Seed) -> object:
    """Run a method; return None if it cannot run."""
    try:
        return method.run(seed)
    except RefereeError:
        return None


def accuracy(entries: list[dict[str, object]]) -> str:
    """Return the mean over the problems and its standard error over the seeds."""
    if any("failed" in entry for entry in entries):
        return "fails"
    by_seed = np.mean([entry["A_T_per_seed"] for entry in entries], axis=0)
    error = np.std(by_seed, ddof=1) / np.sqrt(len(by_seed)) if len(by_seed) > 1 else np.nan
    return f"{np.mean(by_seed):.1f} ± {error:.1f}"


def main() -> int:
    """Print the table."""
    params = load_params()
    project = open_project(params)
    results = {
        name: json.loads(Path(paths.comparison(params.suite, name)).read_text())["methods"] for name in params.problems
    }
    methods = list(next(iter(results.values())))
    by_problem = []
    for name, problem in params.problems.items():
        by_problem.append(times(project.labelled_problem(name), problem.source, methods))
        sys.stderr.write(f"{name} timed\n")
    print("| method | A_T | seconds |\n|---|---:|---:|")
    for method in (*methods, SHARED):
        mean_time = np.mean([by_method[method] for by_method in by_problem])
        entries = [result.get(method, {}) for result in results.values()]
        score = "–" if method == SHARED else accuracy(entries)
        title = method if method == SHARED else entries[0]["title"]
        print(f"| {title} | {score} | {mean_time:.2f} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
