"""Stage `evaluate@PROBLEM`: how good is the adapted model? The one stage of the method that reads target labels.

Writes results/metrics/PROBLEM.json (percent, mean and standard deviation over the seeds) for `dvc metrics`, and
results/tables/PROBLEM/*.csv for `dvc plots` and the report.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pipeline.datasets.manifest_files import ImageRow, read_images, read_labels
from pipeline.errors import exits_cleanly
from pipeline.execution.seeds import for_each_seed
from pipeline.method.evaluation import Scores, TestImages, pseudo_label_quality, score
from pipeline.method.principal_plane import evenly
from pipeline.method.task_features import Rows, subset
from pipeline.method.weight_knowledge import ranking_quality
from pipeline.params import load_params, named
from pipeline.report.diagnosis_tables import (
    SeedPredictions,
    map_table,
    reliability_table,
    shown_table,
    sorted_rows,
    weights_table,
)
from pipeline.report.problem_tables import Csv, Float, Labels, headline, percent, write_tables
from pipeline.stages import places
from pipeline.stages.adapt import SCHEMA
from pipeline.stages.method_options import method_options
from pipeline.stages.target_rows import TargetRows, read_target
from pipeline.stages.task_classes import task_classes
from pipeline.store.array_store import ArrayStore, open_arrays
from pipeline.store.basis_file import read_bases
from pipeline.store.classifier_store import read_classifiers
from pipeline.store.pseudo_label_store import read_labels_of_seed
from pipeline.store.source_store import read_source
from pipeline.write_aside import write_aside

# images on the report's map, and how many of them may be test images
MAPPED, MAPPED_TEST = 600, 300


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
            for labels in [read_labels_of_seed(model, index)]
        ]
    )


def kept_weights(
    model: ArrayStore, rows: TargetRows, truth: Labels
) -> tuple[Float, npt.NDArray[np.bool_]]:
    """Return the weight of every pseudo-label kept in the end, of any seed, and whether it is right."""
    weights, right = [], []
    for index, seed in enumerate(rows.tasks.seeds):
        labels = read_labels_of_seed(model, index)
        used = labels.kept & ~rows.tasks.is_test(seed)
        weights.append(labels.weight[used])
        right.append(labels.label[used] == truth[used])
    return np.concatenate(weights), np.concatenate(right)


def on_the_map(x: Rows, tested: SeedPredictions, truth: Labels, names: Sequence[str]) -> Csv:
    """Return the map of some of the first seed's test images and of some of the others."""
    test = evenly(tested.rows, MAPPED_TEST)
    others = np.setdiff1d(np.arange(len(truth)), tested.rows)
    shown = sorted_rows(test, evenly(others, MAPPED - len(test)))
    said = dict(zip(tested.rows.tolist(), tested.said["fused"].label.tolist(), strict=True))
    return map_table(
        np.asarray(x[shown]), truth[shown], names, [said.get(row) for row in shown.tolist()]
    )


def diagnosis(
    rows: TargetRows,
    images: Sequence[ImageRow],
    truth: Labels,
    scores: Sequence[Scores],
    weighed: tuple[Float, npt.NDArray[np.bool_]],
) -> dict[str, Csv]:
    """Return the tables that say why: calibration, weights, the images to show, the map."""
    tested = [
        SeedPredictions(seed, place, truth[place], dict(score.said))
        for seed, score in zip(rows.tasks.seeds, scores, strict=True)
        for place in [rows.test_rows(seed)]
    ]
    names = rows.class_names
    return {
        "reliability": reliability_table(scores, [one.truth for one in tested]),
        "weights": weights_table(*weighed),
        "shown": shown_table(tested, [(image.path, image.sha256) for image in images], names),
        "map": on_the_map(rows.views["original"], tested[0], truth, names),
    }


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
    images = read_images(folder / "images.csv")
    truth = np.array([row.label for row in read_labels(folder / "labels.csv", images=images)])
    rows = read_target(
        params, problem.target, options.views if options.vote_at_test else ["original"]
    )
    bases = read_bases(places.bases(problem.source))
    model = open_arrays(places.target_model(name), SCHEMA)
    seen = model.attributes["seen"]

    def score_seed(index: int) -> Scores:
        test = rows.test_rows(rows.tasks.seeds[index])
        tested = TestImages(
            rows.views_of(test),
            rows.cosines(test),
            truth[test],
            rows.tasks.task[test],
            subset(rows.said, test),
        )
        return score(
            bases.basis(index),
            tested,
            list(read_source(places.source_model(problem.source), index, rows.class_names)),
            read_classifiers(model, index, seen),
            options=options,
            clip_scale=rows.clip_scale,
        )

    scores = for_each_seed(
        score_seed,
        len(rows.tasks.seeds),
        D=bases.recipe.D * bases.recipe.members,
        workers=params.runtime.workers,
    )
    tested = [truth[rows.tasks.is_test(seed)] for seed in rows.tasks.seeds]
    quality = quality_per_task(model, rows, truth)
    weighed = kept_weights(model, rows, truth)
    told = headline(scores, quality)
    if not math.isnan(knows := ranking_quality(*weighed)):
        told["weight_auroc"] = percent(knows)
    more = diagnosis(rows, images, truth, scores, weighed)
    write_tables(places.tables(name), scores, quality, rows.class_names, tested, more=more)
    with write_aside(places.metrics(name)) as aside:
        aside.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(
        f"evaluate {name}: A_T {told['A_T']} ± {told['A_T_sd']}, source only {told['source_only_A_T']}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
