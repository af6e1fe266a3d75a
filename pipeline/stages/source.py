"""Stage `source@SOURCE`: kernel LDA of the labelled source, after each task.

The only stage of the method that reads source rows and labels. Writes cache/source/SOURCE.zarr: class means and a
classifier after each task, for every seed; this is all that the target's stages may read of the source.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from pipeline.datasets.manifest_files import read_classes, read_tasks
from pipeline.errors import exits_cleanly
from pipeline.execution.seeds import for_each_seed
from pipeline.method.source_model import source_models
from pipeline.method.task_features import subset
from pipeline.params import load_params, named
from pipeline.stages import places
from pipeline.stages.labels_of import read_truth
from pipeline.stages.method_options import method_options
from pipeline.stages.statistics_device import on_device, statistics_device
from pipeline.stages.task_classes import task_classes
from pipeline.store.basis_file import read_bases
from pipeline.store.embedding_store import open_embeddings
from pipeline.store.source_store import writing_source
from pipeline.store.stored_rows import rows_of


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write cache/source/SOURCE.zarr."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.source", description=__doc__)
    parser.add_argument("source", metavar="SOURCE", help="a key of `sources` in params.yaml")
    source = parser.parse_args(argv).source
    params = load_params()
    named("sources", params.sources, source)
    options = method_options(params.method)
    folder = places.manifest_folder(source)
    labels, digest = read_truth(folder)
    tasks = read_tasks(folder / "tasks.csv", rows=len(labels))
    classes = read_classes(folder / "classes.csv")
    store = open_embeddings(places.embeddings(source, params.vision))
    store.require({"rows_digest": digest})
    views = {view: rows_of(store, view) for view in options.views_of_source if view in store.views}
    said = open_embeddings(places.embeddings(source, params.language))
    said.require({"rows_digest": store.provenance["rows_digest"]})
    clip = rows_of(said, "original")
    bases = read_bases(places.bases(source))
    device = statistics_device(params.runtime)

    recipe, seeds = bases.recipe, len(tasks.seeds)
    sets = task_classes(classes)

    with writing_source(
        places.source_model(source),
        [row.class_name for row in classes],
        seeds=seeds,
        tasks=len(sets),
    ) as writer:
        if options.source_covariance:
            writer.reserve(recipe.members, recipe.D)

        def fit_seed(index: int) -> None:
            train = np.flatnonzero(~tasks.is_test(tasks.seeds[index]))
            rows = {view: subset(x, train) for view, x in views.items()}
            models = source_models(
                on_device(bases.basis(index), device),
                rows,
                labels[train],
                sets,
                options,
                clip=subset(clip, train),
            )
            writer.write_seed(index, models)

        for_each_seed(fit_seed, seeds, D=recipe.D * recipe.members, workers=params.runtime.workers)
    sys.stdout.write(
        f"source {source}: {len(classes)} classes in {len(sets)} tasks, {seeds} seeds\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
