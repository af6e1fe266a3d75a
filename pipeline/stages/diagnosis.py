"""What `evaluate` writes for the report beside the figures: calibration, weights, the images to show, a map.

Of a private domain no single image is told: neither paths and labels of some, nor a map of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.datasets.manifest_files import iterate_images
from pipeline.method.evaluation import Scores
from pipeline.method.principal_plane import evenly
from pipeline.method.task_features import Rows
from pipeline.report.diagnosis_tables import (
    MAP,
    SHOWN,
    SeedPredictions,
    map_table,
    reliability_table,
    shown_images,
    shown_table,
    sorted_rows,
    weights_table,
)
from pipeline.report.problem_tables import Csv, Float, Labels
from pipeline.stages.target_rows import TargetRows
from pipeline.store.array_store import ArrayStore
from pipeline.store.pseudo_label_store import read_labels_of_seed

# images on the report's map, and how many of them may be test images
MAPPED, MAPPED_TEST = 600, 300


def kept_weights(
    model: ArrayStore, rows: TargetRows, truth: Labels
) -> tuple[Float, npt.NDArray[np.bool_]]:
    """Return the weight of every pseudo-label kept in the end, of any seed, and whether it is right."""
    weights, right = [], []
    for index, seed in enumerate(rows.tasks.seeds):
        labels = read_labels_of_seed(model, index, rows.rows)
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
    manifest: Path,
    truth: Labels,
    scores: Sequence[Scores],
    weighed: tuple[Float, npt.NDArray[np.bool_]],
    *,
    private: bool = False,
) -> dict[str, Csv]:
    """Return the tables that say why. manifest: the folder in which the images' paths are."""
    tested = [
        SeedPredictions(seed, place, truth[place], dict(score.said))
        for seed, score in zip(rows.tasks.seeds, scores, strict=True)
        for place in [rows.test_rows(seed)]
    ]
    tables = {
        "reliability": reliability_table(scores, [one.truth for one in tested]),
        "weights": weights_table(*weighed),
    }
    if private:
        return tables | {"shown": (SHOWN, []), "map": (MAP, [])}
    names, chosen = rows.class_names, shown_images(tested)
    images = _images_at(manifest, {int(one.rows[i]) for _, one, i in chosen})
    return tables | {
        "shown": shown_table(chosen, images, names),
        "map": on_the_map(rows.views["original"], tested[0], truth, names),
    }


def _images_at(manifest: Path, wanted: set[int]) -> Mapping[int, tuple[str, str]]:
    """Return path and sha256 of some rows of the manifest; the others are read past."""
    images = enumerate(iterate_images(manifest / "images.csv"))
    return {row: (image.path, image.sha256) for row, image in images if row in wanted}
