"""The tables of one problem that `evaluate` writes for `dvc plots` and the report, as CSV files; shares in percent."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.datasets.checked_csv import write_table
from pipeline.errors import counted
from pipeline.method.continual_metrics import (
    BINS,
    accuracy_after_each_task,
    confidence_bins,
    forgetting_per_task,
    weight_bins,
)
from pipeline.method.evaluation import BRANCHES
from pipeline.method.principal_plane import evenly, principal_plane
from pipeline.report.figures import percent
from pipeline.report.made_with import MadeWith
from pipeline.report.problem_figures import EvaluatedProblem, percent_where_known
from pipeline.write_aside import write_aside

Rows = Iterable[Sequence[object]]
CsvTable = tuple[Sequence[str], Rows]  # header and rows

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
class TargetImages:
    """The n images of a target, of which some are shown."""

    embeddings: Any  # rows (n, d): the vision model's of the original view
    paths: Callable[[set[int]], Mapping[int, tuple[str, str]]]  # path and sha256 of some images, by row


class ShownImage(NamedTuple):
    """A test image: index of its seed, its row among the n images, its position among the seed's test images."""

    seed: int
    row: int
    position: int


def problem_tables(problem: EvaluatedProblem, images: TargetImages | None, made: MadeWith) -> dict[str, CsvTable]:
    """Return the tables of a problem, by the name of the file without its ending.

    ``images`` is None if the target is private: then no table names or shows a single image.
    """
    n = max(map(len, problem.test_rows))
    of = f"n = {n} test images, {counted(len(problem.seeds), 'seed')}, D={made['rff.D']}, sigma={made['rff.sigma']:g}"
    of += f", {made['method.variant']}"
    rows: dict[str, Rows] = {
        "tasks": _per_task(problem),
        "accuracy_matrix": _accuracy_matrix(problem),
        "forgetting": _forgetting(problem),
        "pseudo_labels": _pseudo_labels(problem),
        "classes": _per_class(problem),
        "confusion": _confusion(problem),
        "reliability": _reliability(problem),
        "weights": _weights(problem),
        "shown": _shown(problem, images) if images else [],
        "map": _map(problem, images) if images else [],
    }
    more = {"tasks": [f"{name}_only" for name in problem.scores[0].references]}
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


def _per_task(problem: EvaluatedProblem) -> Rows:
    """Yield for each task k: mean and deviation of A_k, and the mean A_k of each reference."""
    own = np.array([accuracy_after_each_task(scores.accuracy) for scores in problem.scores])  # (S, T)
    references = [
        np.mean([accuracy_after_each_task(scores.references[name]) for scores in problem.scores], axis=0)
        for name in problem.scores[0].references
    ]
    for k, after in enumerate(own.T):
        yield k + 1, percent(after.mean()), percent(after.std()), *(percent(one[k]) for one in references)


def _accuracy_matrix(problem: EvaluatedProblem) -> Rows:
    mean = np.mean([scores.accuracy for scores in problem.scores], axis=0)
    return ((k + 1, j + 1, percent(a)) for (k, j), a in np.ndenumerate(mean) if j <= k)


def _forgetting(problem: EvaluatedProblem) -> Rows:
    final = np.mean([scores.accuracy for scores in problem.scores], axis=0)[-1]
    lost = np.mean([forgetting_per_task(scores.accuracy) for scores in problem.scores], axis=0)
    for j, (end, fell) in enumerate(zip(final, lost, strict=False), start=1):
        yield j, percent(end + fell), percent(end), percent(fell)


def _pseudo_labels(problem: EvaluatedProblem) -> Rows:
    for j, (accuracy, kept) in enumerate(problem.quality.transpose(1, 2, 0), start=1):
        yield j, percent_where_known(accuracy), percent(np.mean(kept))


def _per_class(problem: EvaluatedProblem) -> Rows:
    accuracies = np.array([scores.per_class for scores in problem.scores]).T  # (C, S)
    return zip(problem.class_names, map(percent_where_known, accuracies), strict=True)


def _confusion(problem: EvaluatedProblem) -> Rows:
    """Yield how many test images of all seeds are of one class and taken for another, and their share in percent."""
    names = problem.class_names
    images = np.zeros((len(names), len(names)), int)
    predicted = np.concatenate([scores.predicted for scores in problem.scores])
    np.add.at(images, (np.concatenate(problem.test_labels()), predicted), 1)
    right = np.eye(len(names), dtype=bool)  # first: plots take the order of the classes from them
    for i, j in (*np.argwhere(right), *np.argwhere(images * ~right)):
        n = int(images[i, j])
        yield names[i], names[j], n, percent(n / max(images[i].sum(), 1))


def _reliability(problem: EvaluatedProblem) -> Rows:
    """Yield the accuracy per bin of confidence, of each branch, over the test images of all seeds."""
    labels = np.concatenate(problem.test_labels())
    for branch in BRANCHES:
        predictions = [scores.branches[branch] for scores in problem.scores]
        confidence = np.concatenate([prediction.confidence for prediction in predictions])
        right = np.concatenate([prediction.label for prediction in predictions]) == labels
        for b, (n, confidence_sum, hits) in enumerate(confidence_bins(confidence, right)):
            if n:
                ends = percent(b / BINS), percent((b + 1) / BINS)
                yield branch, *ends, int(n), percent(confidence_sum / n), percent(hits / n)


def _weights(problem: EvaluatedProblem) -> Rows:
    """Yield the accuracy of pseudo-labels per bin of their weight."""
    for low, high, mean, n, accuracy in weight_bins(problem.weight, problem.right):
        yield f"{low:.6g}", f"{high:.6g}", f"{mean:.6g}", int(n), percent(accuracy)


def _shown(problem: EvaluatedProblem, images: TargetImages) -> Rows:
    """Yield the images that the report shows, and what each branch predicts for them."""
    names = problem.class_names
    roles = {"mistake": confident_mistakes(problem), "example": _examples(problem)}
    chosen = [(role, image) for role, shown in roles.items() for image in shown]
    paths = images.paths({image.row for _, image in chosen})
    for role, image in chosen:
        branches = (problem.scores[image.seed].branches[branch] for branch in BRANCHES)
        predicted = ((names[one.label[image.position]], percent(one.confidence[image.position])) for one in branches)
        actual, seed = names[problem.labels[image.row]], problem.seeds[image.seed]
        yield role, *paths[image.row], actual, seed, *itertools.chain(*predicted)


def confident_mistakes(problem: EvaluatedProblem) -> list[ShownImage]:
    """Return the wrong predictions with most confidence over all seeds, each image once."""
    wrong = sorted(
        (-float(scores.branches["fused"].confidence[i]), int(rows[i]), seed, int(i))
        for seed, (scores, rows) in enumerate(zip(problem.scores, problem.test_rows, strict=True))
        for i in np.flatnonzero(scores.branches["fused"].label != problem.labels[rows])
    )
    first: dict[int, ShownImage] = {}
    for _, row, seed, position in wrong:
        first.setdefault(row, ShownImage(seed, row, position))
    return list(first.values())[:MISTAKES]


def _examples(problem: EvaluatedProblem) -> list[ShownImage]:
    """Return a test image of the first seed from each of a few classes, spread over all classes."""
    rows = problem.test_rows[0]
    classes, first = np.unique(problem.labels[rows], return_index=True)
    some = np.linspace(0, len(classes) - 1, min(EXAMPLES, len(classes))).astype(int)
    return [ShownImage(0, int(rows[i]), int(i)) for i in first[some]]


def _map(problem: EvaluatedProblem, images: TargetImages) -> Rows:
    """Yield some images on the plane of their principal components, in deviations of the wider axis.

    They are test images of the first seed, and others, which have no prediction.
    """
    test, names = problem.test_rows[0], problem.class_names
    others = np.setdiff1d(np.flatnonzero(problem.labels >= 0), test)
    shown_test = evenly(test, MAPPED_TEST)
    rows = np.union1d(shown_test, evenly(others, MAPPED - len(shown_test)))
    plane, _ = principal_plane(np.asarray(images.embeddings[rows]))
    unit = float(plane.std(axis=0).max()) or 1.0
    predicted = dict(zip(test.tolist(), problem.scores[0].branches["fused"].label, strict=True))
    for row, point in zip(rows.tolist(), plane, strict=True):
        x, y = (round(float(value), 3) + 0.0 for value in point / unit)  # + 0.0: no -0.0
        split, guess = ("test", names[predicted[row]]) if row in predicted else ("train", "")
        yield x, y, names[problem.labels[row]], split, guess
