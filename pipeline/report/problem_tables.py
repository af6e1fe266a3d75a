"""The figures of one problem: the headline as plain values, and tables that `dvc plots` draws. All in percent."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.method.continual_metrics import (
    accuracy_after_each_task,
    average_incremental_accuracy,
    final_accuracy,
    forgetting,
    forgetting_per_task,
)
from pipeline.method.evaluation import Scores
from pipeline.write_aside import write_aside

Float = npt.NDArray[np.float64]
Labels = npt.NDArray[np.integer]
Csv = tuple[Sequence[str], Iterable[Sequence[object]]]  # header and rows


def percent(fraction: float | np.floating[Any]) -> float:
    """Return a fraction as percent with two decimals."""
    return round(100 * float(fraction), 2)


def percent_where_known(fractions: Float) -> float | None:
    """Return the mean in percent of those fractions that exist; None, an empty cell or null, where none does."""
    known = fractions[~np.isnan(fractions)]
    return percent(np.mean(known)) if known.size else None


def accuracy_figures(matrices: Sequence[Float]) -> dict[str, Any]:
    """Return the figures of every seed's accuracy matrix (T, T): final, incremental, forgetting; in percent."""
    final = [final_accuracy(matrix) for matrix in matrices]
    return {
        "A_T": percent(np.mean(final)),
        "A_T_sd": percent(np.std(final)),
        "average_incremental": percent(
            np.mean([average_incremental_accuracy(matrix) for matrix in matrices])
        ),
        "forgetting": percent(np.mean([forgetting(matrix) for matrix in matrices])),
        "A_T_per_seed": [percent(value) for value in final],
    }


def headline(scores: Sequence[Scores], quality: Float) -> dict[str, Any]:
    """Return the headline of a problem from every seed's scores and pseudo-label quality (S, T, 2)."""
    told = accuracy_figures([s.accuracy for s in scores])
    per_seed = told.pop("A_T_per_seed")
    for name in scores[0].references:
        reference = [final_accuracy(s.references[name]) for s in scores]
        told[f"{name}_only_A_T"] = percent(np.mean(reference))
    told["pseudo_label_accuracy"] = percent_where_known(quality[..., 0])
    told["pseudo_labels_kept"] = percent(np.mean(quality[..., 1]))
    told["ece"] = {name: percent(np.mean([s.ece[name] for s in scores])) for name in scores[0].ece}
    told["A_T_per_seed"] = per_seed
    return told


def write_tables(
    folder: Path,
    scores: Sequence[Scores],
    quality: Float,
    names: Sequence[str],
    truth: Sequence[Labels],
    *,
    more: Mapping[str, Csv],
) -> None:
    """Write the tables of a problem and ``more`` by their names, all or none; ``truth``: each seed's test labels."""
    with write_aside(folder) as aside:
        aside.mkdir()
        references = [f"{name}_only" for name in scores[0].references]
        _write(aside / "tasks.csv", ("after_task", "adapted", "sd", *references), _per_task(scores))
        mean = np.mean([s.accuracy for s in scores], axis=0)
        _write(
            aside / "accuracy_matrix.csv",
            ("after_task", "task", "accuracy"),
            ((k + 1, j + 1, percent(a)) for (k, j), a in np.ndenumerate(mean) if j <= k),
        )
        lost = np.mean([forgetting_per_task(s.accuracy) for s in scores], axis=0)
        _write(
            aside / "forgetting.csv",
            ("task", "best", "final", "forgotten"),
            (
                (j + 1, percent(mean[-1, j] + forgot), percent(mean[-1, j]), percent(forgot))
                for j, forgot in enumerate(lost)
            ),
        )
        _write(
            aside / "pseudo_labels.csv",
            ("task", "accuracy", "kept"),
            (
                (task + 1, percent_where_known(of_task[:, 0]), percent(np.mean(of_task[:, 1])))
                for task, of_task in enumerate(np.moveaxis(quality, 1, 0))
            ),
        )
        per_class = np.array([s.per_class for s in scores]).T
        _write(
            aside / "classes.csv",
            ("class", "accuracy"),
            ((name, percent_where_known(a)) for name, a in zip(names, per_class, strict=True)),
        )
        pairs = (
            (int(actual), int(predicted))
            for s, labels in zip(scores, truth, strict=True)
            for actual, predicted in zip(labels, s.predicted, strict=True)
        )
        _write(
            aside / "confusion.csv",
            ("actual", "predicted"),
            # sorted: in the order of the rows it would tell each test image's label to whoever pulls it
            ((names[actual], names[predicted]) for actual, predicted in sorted(pairs)),
        )
        for name, (header, rows) in more.items():
            _write(aside / f"{name}.csv", header, rows)


def _per_task(scores: Sequence[Scores]) -> Iterable[tuple[float, ...]]:
    """Yield for each k: the task, mean and sd of A_k, and the mean A_k of each reference."""
    own = np.array([accuracy_after_each_task(s.accuracy) for s in scores])  # (S, T)
    others = [
        np.mean([accuracy_after_each_task(s.references[name]) for s in scores], axis=0)
        for name in scores[0].references
    ]
    for k in range(own.shape[1]):
        mean, sd = percent(own[:, k].mean()), percent(own[:, k].std())
        yield k + 1, mean, sd, *(percent(other[k]) for other in others)


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
