"""Stage `compare@PROBLEM`: every method of `compare.methods` on the same cached features, in one process.

Reads the caches of both domains and the target's labels, to score with. Writes results/comparison/PROBLEM.json: one
entry per method, in percent, mean and standard deviation over the seeds; and of it, for `dvc metrics`, whose tables
have a column for every value of a file, A_T alone: results/methods/PROBLEM.json.

A method that cannot run on a problem (`paper` where a class has too little weight for eq. 17) does not end the stage:
its entry holds the reason instead of figures, and the stage, the metrics and the tables say so. Where no method can
run, the stage fails.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.comparison.problem import ComparedMethod, SeedProblem
from pipeline.comparison.registry import compared_method
from pipeline.errors import InputError, RefereeError, StoreError, exits_cleanly
from pipeline.execution.cluster import work_place
from pipeline.execution.seeds import for_each_seed
from pipeline.params import load_params, named
from pipeline.report.problem_tables import accuracy_figures
from pipeline.stages import places
from pipeline.stages.seed_problems import ProblemCaches, read_problem
from pipeline.store.basis_file import read_bases
from pipeline.write_aside import write_aside

Matrix = npt.NDArray[np.float64]


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write results/comparison/PROBLEM.json and results/methods/PROBLEM.json."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.compare", description=__doc__)
    parser.add_argument("problem", metavar="PROBLEM", help="a key of `problems` in params.yaml")
    name = parser.parse_args(argv).problem
    params = load_params()
    problem = named("problems", params.problems, name)
    methods = {method: compared_method(method) for method in params.compare.methods}
    bases = read_bases(places.bases(problem.source))
    D, workers = bases.recipe.D * bases.recipe.members, params.runtime.workers
    with work_place(places.SCRATCH, [places.embeddings(problem.target, params.vision)]) as cluster:
        caches = read_problem(params, name, unread=cluster is not None)

        def run_seed(index: int) -> dict[str, Matrix | str]:
            seen = caches.of_seed(index, bases.basis(index))
            return {
                method: accuracies_or_reason(caches, index, compared, seen)
                for method, compared in methods.items()
            }

        seeds = for_each_seed(run_seed, len(caches.seeds), D=D, workers=workers, cluster=cluster)
    told = {
        method: {
            "title": compared.title,
            "group": compared.group,
            "source_samples": compared.source_samples,
            **figures_or_reason([outcome[method] for outcome in seeds], caches.seeds),
        }
        for method, compared in methods.items()
    }
    failed = {method: entry["failed"] for method, entry in told.items() if "failed" in entry}
    final = {method: entry["A_T"] for method, entry in told.items() if method not in failed}
    if not final:
        reasons = "; ".join(f"{method}: {reason}" for method, reason in failed.items())
        raise InputError(f"compare {name}: no method could run ({reasons})")
    metrics: dict[str, Any] = {"A_T": final, **({"failed": failed} if failed else {})}
    for place, content in (
        (places.method_metrics(name), metrics),
        (places.comparison(name), told),
    ):
        with write_aside(place) as aside:
            aside.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    best = max(final, key=final.__getitem__)
    sys.stdout.write(f"compare {name}: {len(methods)} methods, best {best}, A_T {final[best]}\n")
    for method, reason in failed.items():
        sys.stderr.write(f"compare {name}: {method} failed: {reason}\n")
    return 0


def accuracies_or_reason(
    caches: ProblemCaches, index: int, method: ComparedMethod, seen: SeedProblem
) -> Matrix | str:
    """Return a method's accuracy matrix (T, T) on one seed, or in one line why it has none."""
    try:
        return caches.accuracies(index, method.run(seen))
    except StoreError:
        raise  # a damaged store is no method's fault
    except RefereeError as error:
        return " ".join(str(error).split())


def figures_or_reason(outcomes: Sequence[Matrix | str], seeds: Sequence[int]) -> dict[str, Any]:
    """Return a method's figures over all seeds; where it failed on one, the first reason."""
    for seed, outcome in zip(seeds, outcomes, strict=True):
        if isinstance(outcome, str):
            return {"failed": f"seed {seed}: {outcome}"}
    return accuracy_figures([outcome for outcome in outcomes if not isinstance(outcome, str)])


if __name__ == "__main__":
    sys.exit(main())
