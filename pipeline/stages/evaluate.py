"""Stage `evaluate@PROBLEM`: how good is the adapted model? The one stage of the method that reads target labels.

Writes results/metrics/PROBLEM.json (percent, mean and standard deviation over the seeds) for `dvc metrics`, and
results/tables/PROBLEM/*.csv for `dvc plots` and the report.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from pipeline.errors import exits_cleanly
from pipeline.execution.cluster import work_place
from pipeline.execution.seeds import for_each_seed
from pipeline.execution.statistics_place import statistics_place
from pipeline.method.evaluation import Scores, TestImages, pseudo_label_quality, score
from pipeline.method.task_features import subset
from pipeline.method.variants import MethodOptions
from pipeline.method.weight_knowledge import ranking_quality
from pipeline.params import load_params, named
from pipeline.report.problem_tables import Float, Labels, headline, percent, write_tables
from pipeline.stages import places
from pipeline.stages.adapt import SCHEMA
from pipeline.stages.diagnosis import diagnosis, kept_weights
from pipeline.stages.labels_of import read_truth
from pipeline.stages.method_options import method_options
from pipeline.stages.target_rows import TargetRows, read_target
from pipeline.stages.task_classes import task_classes
from pipeline.store.array_store import ArrayStore, open_arrays
from pipeline.store.basis_file import Bases, read_bases
from pipeline.store.classifier_store import read_classifiers
from pipeline.store.embedding_store import open_embeddings
from pipeline.store.pseudo_label_store import read_labels_of_seed
from pipeline.store.source_store import read_source
from pipeline.write_aside import write_aside


@dataclass(frozen=True)
class Inputs:
    """What scoring a problem reads, whatever the seed."""

    rows: TargetRows
    truth: Labels
    bases: Bases
    model: ArrayStore
    source_path: Path
    options: MethodOptions


def score_seed(inputs: Inputs, index: int) -> Scores:
    """Return one seed's scores."""
    rows = inputs.rows
    test = rows.test_rows(rows.tasks.seeds[index])
    images = TestImages(
        rows.views_of(test),
        rows.cosine_rows(test),
        inputs.truth[test],
        rows.tasks.task[test],
        subset(rows.said, test),
        rows.elsewhere,
    )
    return score(
        inputs.bases.basis(index),
        images,
        list(read_source(inputs.source_path, index, rows.class_names)),
        read_classifiers(inputs.model, index, inputs.model.attribute("seen", list, of=int)),
        options=inputs.options,
        clip_scale=rows.clip_scale,
    )


def quality_per_task(model: ArrayStore, rows: TargetRows, truth: Labels) -> Float:
    """Return accuracy and kept fraction of the final pseudo-labels, (S, T, 2)."""
    return np.array(
        [
            [
                pseudo_label_quality(labels.of(place, len(classes)), truth[place])
                for task, classes in enumerate(task_classes(rows.classes))
                for place in [rows.train_rows(seed, task)]
            ]
            for index, seed in enumerate(rows.tasks.seeds)
            for labels in [read_labels_of_seed(model, index, rows.rows)]
        ]
    )


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write results/metrics/PROBLEM.json and results/tables/PROBLEM."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.evaluate", description=__doc__)
    parser.add_argument("problem", metavar="PROBLEM", help="a key of `problems` in params.yaml")
    name = parser.parse_args(argv).problem
    params = load_params()
    problem = named("problems", params.problems, name)
    options = method_options(params.method)
    folder = places.manifest_folder(problem.target)
    truth, digest = read_truth(folder)
    open_embeddings(places.embeddings(problem.target, params.vision)).require(
        {"rows_digest": digest}
    )
    views = options.views if options.vote_at_test else ["original"]
    model = open_arrays(places.target_model(name), SCHEMA)
    with work_place(places.SCRATCH, [places.embeddings(problem.target, params.vision)]) as cluster:
        rows = read_target(
            params, problem.target, views, source=problem.source, unread=cluster is not None
        )
        bases = read_bases(places.bases(problem.source))
        bases.require_of(model)
        D = bases.recipe.D * bases.recipe.members
        tests = int(rows.tasks.test.sum(axis=0).max())
        place = statistics_place(cluster, images=tests, views=len(views), D=D)
        inputs = Inputs(
            rows=replace(rows, elsewhere=place.ranges),
            truth=truth,
            bases=bases,
            model=model,
            source_path=places.in_any_folder(places.source_model(problem.source), cluster),
            options=options,
        )
        scores = for_each_seed(
            partial(score_seed, inputs),
            len(rows.tasks.seeds),
            D=D,
            workers=params.runtime.workers,
            cluster=place.seeds,
        )
    tested = [truth[rows.tasks.is_test(seed)] for seed in rows.tasks.seeds]
    quality = quality_per_task(model, rows, truth)
    weighed = kept_weights(model, rows, truth)
    told = headline(scores, quality)
    if not math.isnan(knows := ranking_quality(*weighed)):
        told["weight_auroc"] = percent(knows)
    private = problem.target in params.data.private
    more = diagnosis(rows, folder, truth, scores, weighed, private=private)
    write_tables(places.tables(name), scores, quality, rows.class_names, tested, more=more)
    with write_aside(places.metrics(name)) as aside:
        aside.write_text(json.dumps(told, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    sys.stdout.write(
        f"evaluate {name}: A_T {told['A_T']} ± {told['A_T_sd']}, source only {told['source_only_A_T']}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
