"""Stage `source@SOURCE`: kernel LDA of the labelled source, after each task.

The only stage of the method that reads source rows and labels. Writes cache/source/SOURCE.zarr: class means and a
classifier after each task, for every seed; this is all that the target's stages may read of the source.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.datasets.manifest_files import Tasks, read_classes, read_tasks
from pipeline.errors import exits_cleanly, listed
from pipeline.execution.cluster import work_place
from pipeline.execution.seeds import for_each_seed
from pipeline.execution.statistics_place import statistics_place
from pipeline.method.class_statistics import Labels
from pipeline.method.row_ranges import RowRanges
from pipeline.method.source_model import SourceModel, source_models
from pipeline.method.task_features import Rows, subset
from pipeline.method.variants import MethodOptions
from pipeline.params import load_params, named
from pipeline.stages import places
from pipeline.stages.labels_of import read_truth
from pipeline.stages.method_options import method_options
from pipeline.stages.statistics_device import on_device, statistics_device
from pipeline.stages.task_classes import task_classes
from pipeline.store.basis_file import Bases, read_bases
from pipeline.store.embedding_store import open_embeddings
from pipeline.store.source_store import write_spreads_to, writing_source
from pipeline.store.stored_rows import rows_of


@dataclass(frozen=True)
class Inputs:
    """What fitting a source reads, whatever the seed."""

    views: Mapping[str, Rows]
    clip: Rows
    labels: Labels
    tasks: Tasks
    sets: Sequence[npt.NDArray[np.intp]]
    bases: Bases
    options: MethodOptions
    elsewhere: RowRanges | None
    device: str


def fit_seed(inputs: Inputs, path: Path, index: int) -> list[SourceModel]:
    """Write one seed's scatters into the store under way at ``path``; return its models without them."""
    train = np.flatnonzero(~inputs.tasks.is_test(inputs.tasks.seeds[index]))
    models = source_models(
        on_device(inputs.bases.basis(index), inputs.device),
        {view: subset(x, train) for view, x in inputs.views.items()},
        inputs.labels[train],
        inputs.sets,
        inputs.options,
        clip=subset(inputs.clip, train),
        elsewhere=inputs.elsewhere,
    )
    return write_spreads_to(path, index, models)


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
    with work_place(places.SCRATCH, [places.embeddings(source, params.vision)]) as cluster:
        unread = cluster is not None
        store = open_embeddings(places.embeddings(source, params.vision))
        store.require({"rows_digest": digest})
        said = open_embeddings(places.embeddings(source, params.language))
        said.require({"rows_digest": store.provenance["rows_digest"]})
        views = [view for view in options.views_of_source if view in store.views]
        less = [view for view in options.views_of_source if view not in store.views]
        absent = f"; without {listed(less)}, which domains.{source}.views lacks" if less else ""
        bases, sets = read_bases(places.bases(source)), task_classes(classes)
        recipe, seeds = bases.recipe, len(tasks.seeds)
        D, most = recipe.D * recipe.members, int(np.bincount(tasks.task).max())
        place = statistics_place(cluster, images=most, views=len(views), D=D)
        inputs = Inputs(
            views={view: rows_of(store, view, unread=unread) for view in views},
            clip=rows_of(said, "original", unread=unread),
            labels=labels,
            tasks=tasks,
            sets=sets,
            bases=bases,
            options=options,
            elsewhere=place.ranges,
            device=statistics_device(params.runtime),
        )
        names = [row.class_name for row in classes]
        path = places.source_model(source)
        backbones = {"vision": store.backbone, "language": said.backbone}
        with writing_source(path, names, backbones, seeds=seeds, tasks=len(sets)) as writer:
            if options.source_covariance:
                writer.reserve(recipe.members, recipe.D)
            fitted = for_each_seed(
                partial(fit_seed, inputs, writer.path),
                seeds,
                D=D,
                workers=params.runtime.workers,
                cluster=place.seeds,
            )
            for index, models in enumerate(fitted):
                writer.keep(index, models)
    sys.stdout.write(
        f"source {source}: {len(classes)} classes in {len(sets)} tasks, {seeds} seeds{absent}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
