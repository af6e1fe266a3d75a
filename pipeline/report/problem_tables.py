"""Build what `evaluate` writes about a problem: figures (JSON), and tables (CSV) for `dvc plots` and the report."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.datasets.checked_csv import write_table
from pipeline.errors import counted
from pipeline.method.continual_metrics import (
    BINS,
    accuracy_after_each_task,
    confidence_bins,
    final_accuracy,
    forgetting_per_task,
    ranking_quality,
    weight_bins,
)
from pipeline.method.evaluation import BRANCHES, Scores
from pipeline.method.fusion import PseudoLabels
from pipeline.method.principal_plane import evenly_spaced, principal_plane
from pipeline.method.rows import Labels, Vector64
from pipeline.report.made_with import MadeWith
from pipeline.report.problem_figures import accuracy_figures, percent, percent_where_known
from pipeline.write_aside import write_aside

Bools = npt.NDArray[np.bool_]
CsvRows = Iterable[Sequence[object]]
CsvTable = tuple[Sequence[str], CsvRows]  # header and rows

PREDICTED = {"says": str, "confidence": float}  # columns for each branch
MISTAKES = 12  # maximum number of mistakes listed
EXAMPLES = 4  # maximum number of images whose views are shown
MAP_IMAGES, MAP_TEST_IMAGES = 600, 300  # maximum numbers of images and of test images on the map

# table -> columns -> type of their values
COLUMNS: dict[str, dict[str, type[Any]]] = {
    # `of` is in tables that `dvc plots` draws: the caption below each plot
    "tasks": {"of": str, "after_task": int, "adapted": float, "sd": float},  # a column per reference follows
    "accuracy_matrix": {"of": str, "after_task": int, "task": int, "accuracy": float},
    "forgetting": {"task": int, "best": float, "final": float, "forgotten": float},
    "pseudo_labels": {"task": int, "accuracy": str, "kept": float},  # accuracy is empty if none was kept
    "classes": {"of": str, "class": str, "accuracy": str},  # accuracy is empty if the class has no test images
    "confusion": {"of": str, "actual": str, "predicted": str, "images": int, "share": float},
    "reliability": {
        "of": str, "branch": str, "from": float, "to": float, "images": int,
        "confidence": float, "accuracy": float,
    },
    "weights": {
        "lowest": float, "highest": float, "weight": float, "images": int, "accuracy": float,
    },
    "shown": {
        "role": str, "path": str, "sha256": str, "actual": str, "seed": int,
        **{f"{branch}_{what}": kind for branch in BRANCHES for what, kind in PREDICTED.items()},
    },
    "map": {"x": float, "y": float, "class": str, "split": str, "predicted": str},
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class EvaluatedProblem:
    """Measurements of `evaluate` on a problem with S seeds, T tasks, C classes and n images of the target."""

    class_names: Sequence[str]  # (C,), by label
    labels: Labels  # (n,), true classes
    seeds: Sequence[int]
    test_rows: Sequence[npt.NDArray[np.intp]]  # per seed, which of the n images are test images
    scores: Sequence[Scores]  # per seed, on its test images
    quality: npt.NDArray[np.float64]  # (S, T, 2): accuracy of the kept pseudo-labels (NaN: none), share kept
    weight: Vector64  # (m,), weights of the kept pseudo-labels of all seeds
    right: Bools  # (m,), whether they are right

    def all_test_labels(self) -> Labels:
        """Return the true classes of the test images of all seeds, one seed after the other."""
        return np.concatenate([self.labels[rows] for rows in self.test_rows])


@dataclass(frozen=True, eq=False)
class TargetImages:
    """The n images of a target, some of which are shown."""

    embeddings: Any  # (n, d), of the vision model in the original view
    paths: Callable[[set[int]], Mapping[int, tuple[str, str]]]  # row numbers -> path and sha256 by row number


def kept_weights(labels: Iterable[PseudoLabels], is_test: Iterable[Bools], truth: Labels) -> tuple[Vector64, Bools]:
    """Return the weights of the kept pseudo-labels of all seeds, and whether each is right; (m,) each.

    ``labels`` and ``is_test`` hold, per seed, the pseudo-labels of the n images and a mask of the test images, which
    have none. ``truth`` (n,) holds the true classes.
    """
    weights, right = [], []
    for pseudo_labels, test in zip(labels, is_test, strict=True):
        used = pseudo_labels.kept & ~test
        weights.append(pseudo_labels.weight[used])
        right.append(pseudo_labels.label[used] == truth[used])
    return np.concatenate(weights), np.concatenate(right)


def problem_figures(problem: EvaluatedProblem) -> dict[str, Any]:
    """Return the figures of a problem, ready to be written as JSON.

    ``weight_auroc`` is missing unless some pseudo-labels are right and some wrong.
    """
    scores = problem.scores
    figures = accuracy_figures([seed.accuracy for seed in scores])
    per_seed = figures.pop("A_T_per_seed")
    for name in scores[0].references:
        figures[f"{name}_only_A_T"] = percent(np.mean([final_accuracy(seed.references[name]) for seed in scores]))
    figures["pseudo_label_accuracy"] = percent_where_known(problem.quality[..., 0])
    figures["pseudo_labels_kept"] = percent(np.mean(problem.quality[..., 1]))
    figures["ece"] = {branch: percent(np.mean([seed.ece[branch] for seed in scores])) for branch in scores[0].ece}
    figures["A_T_per_seed"] = per_seed
    figures["test_images"] = max(map(len, problem.test_rows))
    figures["classes"] = len(problem.class_names)
    if not math.isnan(auroc := ranking_quality(problem.weight, problem.right)):
        figures["weight_auroc"] = percent(auroc)
    return figures


def problem_tables(problem: EvaluatedProblem, images: TargetImages | None, made: MadeWith) -> dict[str, CsvTable]:
    """Return the tables of a problem by file name without ending; shares are in percent.

    ``images`` is None if the target is private. Then no table names or shows a single image.
    """
    n, seeds = max(map(len, problem.test_rows)), counted(len(problem.seeds), "seed")
    caption = f"n = {n} test images, {seeds}, D={made['rff.D']}, sigma={made['rff.sigma']:g}, {made['method.variant']}"
    scores = problem.scores
    matrix = np.mean([seed.accuracy for seed in scores], axis=0)
    per_class = np.array([seed.per_class for seed in scores]).T  # (C, S)
    rows: dict[str, CsvRows] = {
        "tasks": _per_task(scores),
        "accuracy_matrix": ((k + 1, j + 1, percent(a)) for (k, j), a in np.ndenumerate(matrix) if j <= k),
        "forgetting": _forgetting(scores, matrix[-1]),
        "pseudo_labels": (
            (j, percent_where_known(accuracy), percent(np.mean(kept)))
            for j, (accuracy, kept) in enumerate(problem.quality.transpose(1, 2, 0), start=1)
        ),
        "classes": zip(problem.class_names, map(percent_where_known, per_class), strict=True),
        "confusion": _confusion(problem),
        "reliability": _reliability(problem),
        "weights": (  # accuracy of the pseudo-labels per bin of weights
            (f"{low:.6g}", f"{high:.6g}", f"{mean:.6g}", int(n), percent(accuracy))
            for low, high, mean, n, accuracy in weight_bins(problem.weight, problem.right)
        ),
        "shown": _shown(problem, images) if images else (),
        "map": _map(problem, images) if images else (),
    }
    headers: dict[str, Sequence[str]] = {name: tuple(columns) for name, columns in COLUMNS.items()}
    headers["tasks"] = (*COLUMNS["tasks"], *(f"{name}_only" for name in scores[0].references))
    return {
        name: (headers[name], ((caption, *row) for row in table) if "of" in COLUMNS[name] else table)
        for name, table in rows.items()
    }


def write_problem_tables(folder: Path, tables: Mapping[str, CsvTable]) -> None:
    """Write tables into a folder as CSV files, all or none, replacing an existing folder."""
    with write_aside(folder) as aside:
        aside.mkdir()
        for name, table in tables.items():
            write_table(aside / f"{name}.csv", *table)


def _per_task(scores: Sequence[Scores]) -> Iterator[Sequence[object]]:
    """Yield, per task, mean and deviation of A_k, and the mean A_k of each reference."""
    adapted = np.array([accuracy_after_each_task(seed.accuracy) for seed in scores])  # (S, T)
    references = [
        np.mean([accuracy_after_each_task(seed.references[name]) for seed in scores], axis=0)
        for name in scores[0].references
    ]
    for k, accuracy in enumerate(adapted.T):
        yield k + 1, percent(accuracy.mean()), percent(accuracy.std()), *(percent(mean[k]) for mean in references)


def _forgetting(scores: Sequence[Scores], final: Vector64) -> Iterator[Sequence[object]]:
    forgotten = np.mean([forgetting_per_task(seed.accuracy) for seed in scores], axis=0)  # of all tasks but the last
    for j, (end, lost) in enumerate(zip(final, forgotten, strict=False), start=1):
        yield j, percent(end + lost), percent(end), percent(lost)


def _confusion(problem: EvaluatedProblem) -> Iterator[Sequence[object]]:
    """Yield the cells of the confusion matrix over the test images of all seeds: classes, images, share in percent."""
    names = problem.class_names
    images = np.zeros((len(names), len(names)), int)
    predicted = np.concatenate([seed.branches["fused"].label for seed in problem.scores])
    np.add.at(images, (problem.all_test_labels(), predicted), 1)
    right = np.eye(len(names), dtype=bool)  # yielded first: plots take the order of the classes from them
    for i, j in (*np.argwhere(right), *np.argwhere(images * ~right)):
        n = int(images[i, j])
        yield names[i], names[j], n, percent(n / max(images[i].sum(), 1))


def _reliability(problem: EvaluatedProblem) -> Iterator[Sequence[object]]:
    """Yield the accuracy of each branch per bin of confidence, over the test images of all seeds."""
    labels = problem.all_test_labels()
    for branch in BRANCHES:
        predictions = [scores.branches[branch] for scores in problem.scores]
        confidence = np.concatenate([prediction.confidence for prediction in predictions])
        right = np.concatenate([prediction.label for prediction in predictions]) == labels
        for b, (n, confidence_sum, hits) in enumerate(confidence_bins(confidence, right)):
            if n:
                ends = percent(b / BINS), percent((b + 1) / BINS)
                yield branch, *ends, int(n), percent(confidence_sum / n), percent(hits / n)


def _shown(problem: EvaluatedProblem, images: TargetImages) -> Iterator[Sequence[object]]:
    """Yield the images that the report shows, with the predictions of each branch.

    They are the most confident mistakes, and examples: test images of the first seed from a few classes, spread evenly
    over all classes.
    """
    names = problem.class_names
    classes, first = np.unique(problem.labels[problem.test_rows[0]], return_index=True)
    spread = np.linspace(0, len(classes) - 1, min(EXAMPLES, len(classes))).astype(int)
    chosen = [("mistake", *mistake) for mistake in _confident_mistakes(problem)]
    chosen += [("example", 0, int(position)) for position in first[spread]]
    rows = [int(problem.test_rows[seed][position]) for _, seed, position in chosen]
    paths = images.paths(set(rows))
    for (role, seed, position), row in zip(chosen, rows, strict=True):
        branches = [problem.scores[seed].branches[branch] for branch in BRANCHES]
        predicted = [(names[branch.label[position]], percent(branch.confidence[position])) for branch in branches]
        yield (
            role,
            *paths[row],
            names[problem.labels[row]],
            problem.seeds[seed],
            *(value for pair in predicted for value in pair),
        )


def _confident_mistakes(problem: EvaluatedProblem) -> list[tuple[int, int]]:
    """Return the most confident mistakes over all seeds, each image once, as pairs.

    A pair is the index of the seed and the position among its test images.
    """
    wrong = sorted(
        (-float(scores.branches["fused"].confidence[i]), int(rows[i]), seed, int(i))
        for seed, (scores, rows) in enumerate(zip(problem.scores, problem.test_rows, strict=True))
        for i in np.flatnonzero(scores.branches["fused"].label != problem.labels[rows])
    )
    first: dict[int, tuple[int, int]] = {}
    for _, row, seed, position in wrong:
        first.setdefault(row, (seed, position))
    return list(first.values())[:MISTAKES]


def _map(problem: EvaluatedProblem, images: TargetImages) -> Iterator[Sequence[object]]:
    """Yield images on the plane of their principal components, in standard deviations of the wider axis.

    They are test images of the first seed and other images, which have no prediction.
    """
    test, names = problem.test_rows[0], problem.class_names
    others = np.setdiff1d(np.flatnonzero(problem.labels >= 0), test)
    shown_test = evenly_spaced(test, MAP_TEST_IMAGES)
    rows = np.union1d(shown_test, evenly_spaced(others, MAP_IMAGES - len(shown_test)))
    plane = principal_plane(np.asarray(images.embeddings[rows]))
    unit = float(plane.std(axis=0).max()) or 1.0
    predicted = dict(zip(test.tolist(), problem.scores[0].branches["fused"].label, strict=True))
    for row, point in zip(rows.tolist(), plane, strict=True):
        x, y = (round(float(value), 3) + 0.0 for value in point / unit)  # + 0.0: no -0.0
        split, guess = ("test", names[predicted[row]]) if row in predicted else ("train", "")
        yield x, y, names[problem.labels[row]], split, guess
