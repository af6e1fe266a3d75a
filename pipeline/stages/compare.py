"""Stage `compare@PROBLEM`: every method of `compare.methods` on the same cached features, in one process.

Reads the caches of both domains and the target's labels, to score with. Writes results/comparison/PROBLEM.json: one
entry per method, in percent, mean and standard deviation over the seeds; and of it, for `dvc metrics`, whose tables
have a column for every value of a file, A_T alone: results/methods/PROBLEM.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.comparison.registry import compared_method
from pipeline.errors import exits_cleanly
from pipeline.execution.cluster import work_place
from pipeline.execution.seeds import for_each_seed
from pipeline.params import load_params, named
from pipeline.report.problem_tables import accuracy_figures
from pipeline.stages import places
from pipeline.stages.seed_problems import read_problem
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

        def run_seed(index: int) -> dict[str, Matrix]:
            seen = caches.of_seed(index, bases.basis(index))
            return {
                method: caches.accuracies(index, compared.run(seen))
                for method, compared in methods.items()
            }

        seeds = for_each_seed(run_seed, len(caches.seeds), D=D, workers=workers, cluster=cluster)
    told: dict[str, dict[str, Any]] = {
        method: {
            "title": compared.title,
            "group": compared.group,
            "source_samples": compared.source_samples,
            **accuracy_figures([matrices[method] for matrices in seeds]),
        }
        for method, compared in methods.items()
    }
    final = {method: figures["A_T"] for method, figures in told.items()}
    for place, content in (
        (places.method_metrics(name), {"A_T": final}),
        (places.comparison(name), told),
    ):
        with write_aside(place) as aside:
            aside.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    best = max(final, key=final.__getitem__)
    sys.stdout.write(f"compare {name}: {len(methods)} methods, best {best}, A_T {final[best]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
