"""Refine the views of a target's train images for every seed, and embed them.

A seed's pseudo-labels and source model are its own, so its refined views are too. Without steps
(mutual attention alone) they do not depend on the seed and are computed once.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.errors import ModelError, ParamsError
from pipeline.extraction.batches import ViewEmbeddings, stream
from pipeline.extraction.embedding_settings import EmbeddingSettings
from pipeline.extraction.image_embedder import ImageEmbedder
from pipeline.extraction.images import Crops, Image, load_crops
from pipeline.extraction.ordered_map import worker_count
from pipeline.extraction.progress import Progress
from pipeline.extraction.view_refiner import ViewRefiner
from pipeline.method.adversarial_refinement import Ascent, SourceBranch
from pipeline.method.kernel_lda import Classifier
from pipeline.method.random_fourier_features import Basis
from pipeline.method.variants import MethodOptions
from pipeline.problem.problem import Problem
from pipeline.store.target_store import TaskLabels

Matrix = npt.NDArray[np.floating]
Index = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class TaskToRefine:
    """Train images of one task of one seed, and the loss that their views climb."""

    rows: Index  # (n,) row numbers of the images
    branch: SourceBranch | None  # the source classifier over the task's classes; None without steps
    # (n,) or, with CLIP in the kernel, (n, 2): pseudo-labels as `SourceBranch.log_odds` takes them
    labels: Index


def task_to_refine(
    rows: Index,
    labels: Index,
    classes: Index,
    *,
    basis: Basis,
    classifier: Classifier,
    clip_rows: Matrix | None = None,
    clip_weight: float = 0.0,
) -> TaskToRefine:
    """Return a task's train images, row numbers (n,), with the source branch that their views are refined against.

    ``labels`` (n,) are pseudo-labels among the task's ``classes``, which ascend. With a weight of CLIP in the kernel
    (``clip_in_kernel``), its part is that of the original image, ``clip_rows`` (n, d'), whatever the view's pixels.
    """
    in_task = np.searchsorted(classes, labels)
    if clip_weight:
        in_task = np.stack([in_task, np.arange(len(rows))], axis=1)
    return TaskToRefine(rows, SourceBranch(basis, classifier, classes, clip_rows, clip_weight), in_task)


def views_to_refine(domain: str, views: Sequence[str], model: str, library: str) -> tuple[str, ...]:
    """Return the views that refinement changes, all but the original; ``domain`` and ``model`` are keys of params."""
    remedy = "set refinement.steps: 0 and refinement.mutual_attention: false"
    if library == "imported":
        raise ModelError(
            f"refinement: models.{model} is imported, so there is no backbone to refine views with; {remedy}"
        )
    refined = tuple(view for view in views if view != "original")
    if not refined:
        raise ParamsError(
            f"refinement: domains.{domain}.views has no view but the original; add zeros or rand, or {remedy}"
        )
    return refined


def tasks_to_refine(
    problem: Problem, options: MethodOptions, labels: Iterable[TaskLabels], index: int
) -> Iterator[TaskToRefine]:
    """Yield the tasks of the seed at ``index``, whose first ``labels`` are given task by task."""
    target, basis = problem.target, problem.bases.basis(index)
    sources = problem.source_models(index)
    for classes, source, (rows, first) in zip(target.class_sets, sources, labels, strict=True):
        yield task_to_refine(
            rows,
            first.label,
            classes,
            basis=basis,
            classifier=source.classifier,
            clip_rows=np.asarray(target.clip_rows[rows]) if options.clip_in_kernel else None,
            clip_weight=options.clip_in_kernel,
        )


@contextmanager
def refine_views(
    images: Sequence[Image],
    views: Sequence[str],
    settings: EmbeddingSettings,
    *,
    ascent: Ascent,
    attention: bool,
    train: npt.NDArray[np.bool_],
    tasks_of: Callable[[int], Iterable[TaskToRefine]],
    scratch: Path,
) -> Iterator[dict[str, Path]]:
    """Refine and embed ``views`` of all seeds' train images; ``train`` (S, n) says which of the n images these are.

    Yield of each view an .npy file (S, n, d) in the folder ``scratch``, there until the ``with`` block ends: the rows
    may be more than the memory holds; those of test images are NaN. ``tasks_of(seed_index)`` gives the tasks of a seed
    and is not called without steps.
    """
    encoder, dtype = ImageEmbedder.build(settings).encoder, settings.backbone.stored_as
    refiner = ViewRefiner(encoder, settings.views, ascent, attention=attention, rows=settings.batch_size)

    def load(piece: TaskToRefine) -> Crops:
        return load_crops((images[row] for row in piece.rows), encoder.preprocessing)

    def start(piece: TaskToRefine, crops: Crops) -> Callable[[], ViewEmbeddings]:
        digests = [images[row].digest for row in piece.rows]
        rows = refiner(crops, digests, views, branch=piece.branch, labels=piece.labels, dtype=dtype)
        return lambda: rows

    def fill(seed_rows: Mapping[str, Matrix], tasks: Iterable[TaskToRefine]) -> None:
        """Put the refined rows of the tasks into the arrays (n, d) of one seed."""
        pieces = [piece for task in tasks for piece in _pieces(task, refiner.rows)]
        workers, parallel = worker_count(settings.workers), refiner.is_thread_parallel
        with Progress("refine", sum(len(piece.rows) for piece in pieces)) as shown:
            for piece, embedded in stream(pieces, load=load, start=start, side_by_side=parallel, workers=workers):
                for view, rows in embedded.items():
                    seed_rows[view][piece.rows] = rows
                shown.update(len(piece.rows))

    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch, prefix="refine-") as folder:
        shape = (*train.shape, encoder.width)
        files = {view: Path(folder, f"{view}.npy") for view in views}
        filled = {view: np.lib.format.open_memmap(file, "w+", dtype, shape) for view, file in files.items()}
        for array in filled.values():
            array[...] = np.nan
        if ascent.steps:
            for seed in range(len(train)):
                fill({view: array[seed] for view, array in filled.items()}, tasks_of(seed))
        else:
            rows = np.arange(len(images))
            everything = TaskToRefine(rows, None, np.zeros_like(rows))
            fill({view: array[0] for view, array in filled.items()}, [everything])
            for array in filled.values():
                for seed in reversed(range(len(train))):  # the first is copied to the others
                    array[seed] = array[0]
                    array[seed, ~train[seed]] = np.nan
        del filled  # closes the files
        yield files


def _pieces(task: TaskToRefine, size: int) -> Iterator[TaskToRefine]:
    for start in range(0, len(task.rows), size):
        part = slice(start, start + size)
        yield TaskToRefine(task.rows[part], task.branch, task.labels[part])
