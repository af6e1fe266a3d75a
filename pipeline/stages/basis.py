"""Stage `basis@SOURCE`: the random Fourier bases, one per seed, shared by a source and its targets.

Writes cache/bases/SOURCE.json, the recipe of every seed's basis, and how well they approximate the kernel on a sample
of the source's vision rows as a metric. Under `median` the bandwidth comes from the source's train rows alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.datasets.manifest_files import Tasks, read_tasks
from pipeline.errors import exits_cleanly
from pipeline.method.random_fourier_features import (
    MEDIAN_ROWS,
    Convention,
    kernel_error,
    median_bandwidth,
)
from pipeline.method.task_features import Rows, subset
from pipeline.params import RandomFourierFeatures, load_params, named
from pipeline.stages import places
from pipeline.store.basis_file import BasisRecipe, basis_digest, write_bases
from pipeline.store.embedding_store import open_embeddings
from pipeline.store.stored_rows import rows_of
from pipeline.write_aside import write_aside

SAMPLE = 500  # rows on which the kernel is compared: 124,750 pairs


def recipe(rff: RandomFourierFeatures, x: Rows, tasks: Tasks, d_clip: int) -> BasisRecipe:
    """Return the recipe of all seeds' bases for source rows ``x`` (n, d); ``d_clip``: width of CLIP's."""
    convention: Convention = "bandwidth" if rff.convention == "median" else rff.convention
    sigmas = [
        rff.sigma * median_bandwidth(spaced(subset(x, np.flatnonzero(~tasks.is_test(seed)))))
        if rff.convention == "median"
        else rff.sigma
        for seed in tasks.seeds
    ]
    return BasisRecipe(
        d=x.shape[1],
        D=rff.D,
        convention=convention,
        orthogonal=rff.orthogonal,
        seeds=tasks.seeds,
        sigmas=tuple(sigmas),
        members=rff.bases,
        d_clip=d_clip,
        asked_convention=rff.convention,
        asked_sigma=rff.sigma,
    )


def spaced(x: Rows) -> npt.NDArray[np.floating]:
    """Return the evenly spaced rows that `median_bandwidth` compares, and no others."""
    return np.asarray(x[np.arange(0, len(x), -(-len(x) // MEDIAN_ROWS))])


def sample(x: Rows) -> npt.NDArray[np.floating]:
    """Return about `SAMPLE` rows, evenly spaced."""
    return np.asarray(x[np.arange(0, len(x), max(1, len(x) // SAMPLE))[:SAMPLE]])


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write cache/bases/SOURCE.json and results/bases/SOURCE.json."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.basis", description=__doc__)
    parser.add_argument("source", metavar="SOURCE", help="a key of `sources` in params.yaml")
    source = parser.parse_args(argv).source
    params = load_params()
    named("sources", params.sources, source)
    x = rows_of(open_embeddings(places.embeddings(source, params.vision)), "original")
    tasks = read_tasks(places.manifest_folder(source) / "tasks.csv", rows=len(x))
    said = open_embeddings(places.embeddings(source, params.language))
    made = recipe(params.rff, x, tasks, said.width)
    drawn = [made.draw(index) for index in range(len(made.seeds))]
    errors = np.array([kernel_error(basis, sample(x)) for basis in drawn])  # (S, 3)
    digests = [basis_digest(basis, rounded=made.orthogonal) for basis in drawn]
    write_bases(places.bases(source), made, digests)
    kernel_rms, kernel_max, distance_rms = (float(f"{value:.3g}") for value in errors.mean(axis=0))
    told: dict[str, Any] = {
        "D": made.D,
        "gamma": float(f"{drawn[0].gamma:.6g}"),
        "kernel_rms": kernel_rms,
        "kernel_max": kernel_max,
        "distance_rms": distance_rms,
    }
    with write_aside(places.basis_metrics(source)) as aside:
        aside.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(
        f"basis {source}: D {made.D}, relative error of distances {distance_rms:.1%}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
