"""Stage `pseudo_label@PROBLEM`: label the target's train images by the source model and CLIP, steps 2, 5 and 7.

Reads the target's embeddings, prompts, tasks and splits, and the source *model*: no source row, no label of either
side. Writes cache/pseudo_labels/PROBLEM.zarr.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from pipeline.errors import exits_cleanly
from pipeline.execution.cluster import work_place
from pipeline.execution.seeds import for_each_seed
from pipeline.execution.statistics_place import statistics_place
from pipeline.method.adaptation import pseudo_label
from pipeline.method.variants import MethodOptions
from pipeline.params import load_params, named
from pipeline.stages import places
from pipeline.stages.method_options import method_options
from pipeline.stages.target_rows import TargetRows, read_target
from pipeline.store.array_store import write_arrays
from pipeline.store.basis_file import Bases, read_bases
from pipeline.store.pseudo_label_store import SCHEMA, Placed, label_arrays
from pipeline.store.source_store import read_source


@dataclass(frozen=True)
class Inputs:
    """What labelling a problem's target reads, whatever the seed."""

    rows: TargetRows
    bases: Bases
    source_path: Path
    options: MethodOptions


def label_seed(inputs: Inputs, index: int) -> list[Placed]:
    """Return one seed's pseudo-labels of each task, with their rows."""
    rows, options = inputs.rows, inputs.options
    seed, basis = rows.tasks.seeds[index], inputs.bases.basis(index)
    source = read_source(inputs.source_path, index, rows.class_names)
    return [
        (
            rows.train_rows(seed, task),
            pseudo_label(
                basis, rows.train_task(seed, task), model.classifier, options, rows.clip_scale
            ),
        )
        for task, model in enumerate(source)
    ]


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write cache/pseudo_labels/PROBLEM.zarr."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.stages.pseudo_label", description=__doc__
    )
    parser.add_argument("problem", metavar="PROBLEM", help="a key of `problems` in params.yaml")
    name = parser.parse_args(argv).problem
    params = load_params()
    problem = named("problems", params.problems, name)
    options = method_options(params.method)
    views = options.views if options.vote_views else ["original"]
    with work_place(places.SCRATCH, [places.embeddings(problem.target, params.vision)]) as cluster:
        rows = read_target(
            params, problem.target, views, source=problem.source, unread=cluster is not None
        )
        bases = read_bases(places.bases(problem.source))
        D = bases.recipe.D * bases.recipe.members
        place = statistics_place(cluster, images=rows.most_of_a_task, views=len(views), D=D)
        inputs = Inputs(
            rows=replace(rows, elsewhere=place.ranges),
            bases=bases,
            source_path=places.in_any_folder(places.source_model(problem.source), cluster),
            options=options,
        )
        seeds = for_each_seed(
            partial(label_seed, inputs),
            len(rows.tasks.seeds),
            D=D,
            workers=params.runtime.workers,
            cluster=place.seeds,
        )
    write_arrays(
        places.pseudo_labels(name),
        SCHEMA,
        label_arrays(seeds, rows.rows),
        {"problem": name},
    )
    kept = np.concatenate([labels.kept for tasks in seeds for _, labels in tasks]).mean()
    sys.stdout.write(
        f"pseudo_label {name}: {rows.rows} rows, {kept:.1%} of the train images kept\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
