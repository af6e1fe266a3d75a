"""Stage `evaluate@PROBLEM`: how good is the adapted model? The one stage of the method that reads target labels.

Writes results/metrics/PROBLEM.json (percent, mean and standard deviation over the seeds) for `dvc metrics`, and
results/tables/PROBLEM/{tasks,classes,confusion}.csv for `dvc plots`.
"""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np

from pipeline.errors import exits_cleanly
from pipeline.execution.seeds import for_each_seed
from pipeline.method.evaluation import Scores, TestImages, pseudo_label_quality, score
from pipeline.method.task_features import subset
from pipeline.params import load_params, named
from pipeline.report.problem_tables import Float, Labels, headline, write_tables
from pipeline.stages import places
from pipeline.stages.adapt import SCHEMA
from pipeline.stages.labels_of import read_truth
from pipeline.stages.method_options import method_options
from pipeline.stages.target_rows import TargetRows, read_target
from pipeline.stages.task_classes import task_classes
from pipeline.store.array_store import ArrayStore, open_arrays
from pipeline.store.basis_file import read_bases
from pipeline.store.classifier_store import read_classifiers
from pipeline.store.pseudo_label_store import read_labels_of_seed
from pipeline.store.source_store import read_source
from pipeline.write_aside import write_aside


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
    truth, _ = read_truth(folder)
    rows = read_target(
        params, problem.target, options.views if options.vote_at_test else ["original"]
    )
    bases = read_bases(places.bases(problem.source))
    model = open_arrays(places.target_model(name), SCHEMA)
    seen = model.attribute("seen", list, of=int)

    def score_seed(index: int) -> Scores:
        test = rows.test_rows(rows.tasks.seeds[index])
        images = TestImages(
            rows.views_of(test),
            rows.cosine_rows(test),
            truth[test],
            rows.tasks.task[test],
            subset(rows.said, test),
        )
        return score(
            bases.basis(index),
            images,
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
    told = headline(scores, quality)
    write_tables(places.tables(name), scores, quality, rows.class_names, tested)
    with write_aside(places.metrics(name)) as aside:
        aside.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(
        f"evaluate {name}: A_T {told['A_T']} ± {told['A_T_sd']}, source only {told['source_only_A_T']}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
