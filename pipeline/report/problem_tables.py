"""What `evaluate` writes about one problem: its figures, as JSON, and tables for `dvc plots` and the report, as CSV."""

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
from pipeline.method.principal_plane import evenly, principal_plane
from pipeline.method.rows import Labels, Vector64
from pipeline.report.made_with import MadeWith
from pipeline.report.problem_figures import accuracy_figures, percent, percent_where_known
from pipeline.write_aside import write_aside

Bools = npt.NDArray[np.bool_]
CsvRows = Iterable[Sequence[object]]
CsvTable = tuple[Sequence[str], CsvRows]  # header and rows

PREDICTED = {"says": str, "confidence": float}  # by each branch
MISTAKES = 12  # how many are listed, the most confident
EXAMPLES = 4  # images whose views are shown
MAPPED, MAPPED_TEST = 600, 300  # images on the map, and how many of them may be test images

# table -> its columns and the type of their values
COLUMNS: dict[str, dict[str, type[Any]]] = {
    # `of`, in tables that `dvc plots` draws: what the numbers are of, written below each plot
    "tasks": {"of": str, "after_task": int, "adapted": float, "sd": float},  # then the references
    "accuracy_matrix": {"of": str, "after_task": int, "task": int, "accuracy": float},
    "forgetting": {"task": int, "best": float, "final": float, "forgotten": float},
    "pseudo_labels": {"task": int, "accuracy": str, "kept": float},  # empty where none was kept
    "classes": {"of": str, "class": str, "accuracy": str},  # empty for a class without test images
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
    """What `evaluate` measured on one problem with S seeds, T tasks, C classes and n images of the target."""

    class_names: Sequence[str]  # the C classes, by label
    labels: Labels  # (n,), the true class of every image
    seeds: Sequence[int]
    test_rows: Sequence[npt.NDArray[np.intp]]  # for each seed, which of the n images are test images
    scores: Sequence[Scores]  # for each seed, on its test images
    quality: npt.NDArray[np.float64]  # (S, T, 2): accuracy of the pseudo-labels (NaN: none kept), and the share kept
    weight: Vector64  # (m,), of every pseudo-label that was kept, of all seeds
    right: Bools  # (m,), whether it is right

    def all_test_labels(self) -> Labels:
        """Return the true classes of the test images of all seeds, one seed after the other."""
        return np.concatenate([self.labels[rows] for rows in self.test_rows])


@dataclass(frozen=True, eq=False)
class TargetImages:
    """The n images of a target, of which some are shown."""

    embeddings: Any  # rows (n, d): the vision model's of the original view
    paths: Callable[[set[int]], Mapping[int, tuple[str, str]]]  # path and sha256 of some images, by row


def kept_weights(labels: Iterable[PseudoLabels], is_test: Iterable[Bools], truth: Labels) -> tuple[Vector64, Bools]:
    """Return the weight of every pseudo-label that was kept, of all seeds, and whether it is right; (m,) each.

    ``labels`` and ``is_test`` have for each seed the pseudo-labels of the n images and which are test images
    (these have none); ``truth`` (n,) the true classes.
    """
    weights, right = [], []
    for one, test in zip(labels, is_test, strict=True):
        used = one.kept & ~test
        weights.append(one.weight[used])
        right.append(one.label[used] == truth[used])
    return np.concatenate(weights), np.concatenate(right)


def problem_figures(problem: EvaluatedProblem) -> dict[str, Any]:
    """Return the figures of a problem, ready to be written as JSON.

    ``weight_auroc`` is there only where pseudo-labels are both right and wrong.
    """
    scores = problem.scores
    figures = accuracy_figures([one.accuracy for one in scores])
    per_seed = figures.pop("A_T_per_seed")
    for name in scores[0].references:
        figures[f"{name}_only_A_T"] = percent(np.mean([final_accuracy(one.references[name]) for one in scores]))
    figures["pseudo_label_accuracy"] = percent_where_known(problem.quality[..., 0])
    figures["pseudo_labels_kept"] = percent(np.mean(problem.quality[..., 1]))
    figures["ece"] = {branch: percent(np.mean([one.ece[branch] for one in scores])) for branch in scores[0].ece}
    figures["A_T_per_seed"] = per_seed
    figures["test_images"] = max(map(len, problem.test_rows))
    figures["classes"] = len(problem.class_names)
    if not math.isnan(auroc := ranking_quality(problem.weight, problem.right)):
        figures["weight_auroc"] = percent(auroc)
    return figures


def problem_tables(problem: EvaluatedProblem, images: TargetImages | None, made: MadeWith) -> dict[str, CsvTable]:
    """Return the tables of a problem, by the name of the file without its ending; shares in percent.

    ``images`` is None if the target is private: then no table names or shows a single image.
    """
    n = max(map(len, problem.test_rows))
    of = f"n = {n} test images, {counted(len(problem.seeds), 'seed')}, D={made['rff.D']}, sigma={made['rff.sigma']:g}"
    of += f", {made['method.variant']}"
    scores = problem.scores
    matrix = np.mean([one.accuracy for one in scores], axis=0)
    per_class = np.array([one.per_class for one in scores]).T  # (C, S)
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
        "weights": (  # the accuracy of pseudo-labels per bin of their weight
            (f"{low:.6g}", f"{high:.6g}", f"{mean:.6g}", int(n), percent(accuracy))
            for low, high, mean, n, accuracy in weight_bins(problem.weight, problem.right)
        ),
        "shown": _shown(problem, images) if images else (),
        "map": _map(problem, images) if images else (),
    }
    more = {"tasks": [f"{name}_only" for name in scores[0].references]}
    return {
        name: ((*COLUMNS[name], *more.get(name, ())), ((of, *row) for row in table) if "of" in COLUMNS[name] else table)
        for name, table in rows.items()
    }


def write_problem_tables(folder: Path, tables: Mapping[str, CsvTable]) -> None:
    """Write tables into a folder as CSV files, all or none; a folder that exists is replaced."""
    with write_aside(folder) as aside:
        aside.mkdir()
        for name, table in tables.items():
            write_table(aside / f"{name}.csv", *table)


def _per_task(scores: Sequence[Scores]) -> Iterator[Sequence[object]]:
    """Yield for each task k: mean and deviation of A_k, and the mean A_k of each reference."""
    own = np.array([accuracy_after_each_task(one.accuracy) for one in scores])  # (S, T)
    references = [
        np.mean([accuracy_after_each_task(one.references[name]) for one in scores], axis=0)
        for name in scores[0].references
    ]
    for k, after in enumerate(own.T):
        yield k + 1, percent(after.mean()), percent(after.std()), *(percent(one[k]) for one in references)


def _forgetting(scores: Sequence[Scores], final: Vector64) -> Iterator[Sequence[object]]:
    lost = np.mean([forgetting_per_task(one.accuracy) for one in scores], axis=0)  # of all tasks but the last
    for j, (end, fell) in enumerate(zip(final, lost, strict=False), start=1):
        yield j, percent(end + fell), percent(end), percent(fell)


def _confusion(problem: EvaluatedProblem) -> Iterator[Sequence[object]]:
    """Yield how many test images of all seeds are of one class and taken for another, and their share in percent."""
    names = problem.class_names
    images = np.zeros((len(names), len(names)), int)
    predicted = np.concatenate([one.branches["fused"].label for one in problem.scores])
    np.add.at(images, (problem.all_test_labels(), predicted), 1)
    right = np.eye(len(names), dtype=bool)  # first: plots take the order of the classes from them
    for i, j in (*np.argwhere(right), *np.argwhere(images * ~right)):
        n = int(images[i, j])
        yield names[i], names[j], n, percent(n / max(images[i].sum(), 1))


def _reliability(problem: EvaluatedProblem) -> Iterator[Sequence[object]]:
    """Yield the accuracy per bin of confidence, of each branch, over the test images of all seeds."""
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
    """Yield the images that the report shows, and what each branch predicts for them.

    They are the most confident mistakes, and a test image of the first seed from each of a few classes, spread over
    all classes.
    """
    names = problem.class_names
    classes, first = np.unique(problem.labels[problem.test_rows[0]], return_index=True)
    some = np.linspace(0, len(classes) - 1, min(EXAMPLES, len(classes))).astype(int)
    chosen = [("mistake", *at) for at in _confident_mistakes(problem)]
    chosen += [("example", 0, int(position)) for position in first[some]]
    rows = [int(problem.test_rows[seed][position]) for _, seed, position in chosen]
    paths = images.paths(set(rows))
    for (role, seed, position), row in zip(chosen, rows, strict=True):
        branches = [problem.scores[seed].branches[branch] for branch in BRANCHES]
        predicted = [(names[one.label[position]], percent(one.confidence[position])) for one in branches]
        yield (
            role,
            *paths[row],
            names[problem.labels[row]],
            problem.seeds[seed],
            *(x for pair in predicted for x in pair),
        )


def _confident_mistakes(problem: EvaluatedProblem) -> list[tuple[int, int]]:
    """Return the wrong predictions with most confidence over all seeds, each image once.

    They are given by the index of the seed and the position among its test images.
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
    """Yield some images on the plane of their principal components, in deviations of the wider axis.

    They are test images of the first seed, and others, which have no prediction.
    """
    test, names = problem.test_rows[0], problem.class_names
    others = np.setdiff1d(np.flatnonzero(problem.labels >= 0), test)
    shown_test = evenly(test, MAPPED_TEST)
    rows = np.union1d(shown_test, evenly(others, MAPPED - len(shown_test)))
    plane = principal_plane(np.asarray(images.embeddings[rows]))
    unit = float(plane.std(axis=0).max()) or 1.0
    predicted = dict(zip(test.tolist(), problem.scores[0].branches["fused"].label, strict=True))
    for row, point in zip(rows.tolist(), plane, strict=True):
        x, y = (round(float(value), 3) + 0.0 for value in point / unit)  # + 0.0: no -0.0
        split, guess = ("test", names[predicted[row]]) if row in predicted else ("train", "")
        yield x, y, names[problem.labels[row]], split, guess
