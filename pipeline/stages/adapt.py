"""Stage `adapt@PROBLEM`: the target's statistics and classifier after each task, steps 6 to 9.

Reads the target's embeddings of all views (refined ones where `refine` made them), its pseudo-labels, and the source
*model*: no source row, no label of either side. Tasks in order; what is earlier lives on in the statistics alone.
Writes cache/target/PROBLEM.zarr.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.errors import exits_cleanly
from pipeline.execution.cluster import work_place
from pipeline.execution.seeds import for_each_seed
from pipeline.execution.statistics_place import statistics_place
from pipeline.method.adaptation import adapt_task, nothing_yet
from pipeline.method.kernel_lda import Classifier
from pipeline.method.variants import MethodOptions
from pipeline.params import load_params, named
from pipeline.stages import places
from pipeline.stages.method_options import method_options
from pipeline.stages.statistics_device import on_device, statistics_device
from pipeline.stages.target_rows import TargetRows, read_target, with_views
from pipeline.store.array_store import ArrayStore, open_arrays, write_arrays
from pipeline.store.basis_file import Bases, read_bases
from pipeline.store.classifier_store import classifier_arrays
from pipeline.store.pseudo_label_store import SCHEMA as LABELS
from pipeline.store.pseudo_label_store import Placed, label_arrays, read_labels_of_seed
from pipeline.store.refined_store import RefinedViews, open_refined
from pipeline.store.source_store import read_source

SCHEMA = "referee-target/3"


@dataclass(frozen=True)
class Inputs:
    """What adapting to a problem reads, whatever the seed."""

    rows: TargetRows
    bases: Bases
    first_labels: ArrayStore
    refined: RefinedViews
    source_path: Path
    options: MethodOptions
    device: str = ""


def adapt_seed(inputs: Inputs, index: int) -> tuple[list[Classifier], list[Placed]]:
    """Return one seed's classifier after each task, and each task's final pseudo-labels with their rows."""
    rows, options = inputs.rows, inputs.options
    seed = rows.tasks.seeds[index]
    basis = on_device(inputs.bases.basis(index), inputs.device)
    first_labels = read_labels_of_seed(inputs.first_labels, index, rows.rows)
    refined_views = inputs.refined.of_seed(index, like=rows.views)
    pooled = options.source_covariance
    source = read_source(inputs.source_path, index, rows.class_names, with_scatter=pooled)
    running = nothing_yet(basis, options)
    classifiers: list[Classifier] = []
    placed: list[Placed] = []
    for task, model in enumerate(source):
        place = rows.train_rows(seed, task)
        target = with_views(rows.train_task(seed, task), refined_views, place)
        running, adapted = adapt_task(
            basis,
            running,
            target,
            first_labels.of(place, len(target.classes)),
            source=model,
            options=options,
            clip_scale=rows.clip_scale,
        )
        classifiers.append(adapted.classifier)
        placed.append((place, adapted.labels))
    return classifiers, placed


def options_as_attributes(options: MethodOptions) -> dict[str, Any]:
    """Return the options as plain JSON values, for provenance."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(options).items()
    }


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write cache/target/PROBLEM.zarr."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.adapt", description=__doc__)
    parser.add_argument("problem", metavar="PROBLEM", help="a key of `problems` in params.yaml")
    name = parser.parse_args(argv).problem
    params = load_params()
    problem = named("problems", params.problems, name)
    options = method_options(params.method)
    with work_place(places.SCRATCH, [places.embeddings(problem.target, params.vision)]) as cluster:
        rows = read_target(
            params, problem.target, options.views, source=problem.source, unread=cluster is not None
        )
        bases = read_bases(places.bases(problem.source))
        D = bases.recipe.D * bases.recipe.members
        place = statistics_place(cluster, images=rows.most_of_a_task, views=len(options.views), D=D)
        inputs = Inputs(
            rows=replace(rows, elsewhere=place.ranges),
            bases=bases,
            first_labels=open_arrays(places.pseudo_labels(name), LABELS),
            refined=open_refined(places.refined(name)),
            source_path=places.in_any_folder(places.source_model(problem.source), cluster),
            options=options,
            device=statistics_device(params.runtime),
        )
        seeds = for_each_seed(
            partial(adapt_seed, inputs),
            len(rows.tasks.seeds),
            D=D,
            workers=params.runtime.workers,
            cluster=place.seeds,
        )
    classifiers = [of_seed for of_seed, _ in seeds]
    arrays = {
        **classifier_arrays(classifiers),
        **label_arrays([placed for _, placed in seeds], rows.rows),
    }
    seen = [len(classifier.b) for classifier in classifiers[0]]
    attributes = {
        "problem": name,
        "seen": seen,
        "classes": rows.class_names,
        # who predicts with it must have the same
        "method": options_as_attributes(options),
        "bases": list(bases.digests),
    }
    write_arrays(places.target_model(name), SCHEMA, arrays, attributes)
    sys.stdout.write(f"adapt {name}: {len(seen)} tasks, {len(seeds)} seeds\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
