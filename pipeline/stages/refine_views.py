"""Refine the views of a target's train images, for every seed, and write their embeddings.

A seed's pseudo-labels and source model are its own, so its refined views are too. Without steps (mutual attention
alone) they do not depend on the seed and are computed once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from pipeline.datasets.manifest_files import (
    ClassRow,
    ImageRow,
    Tasks,
    read_classes,
    read_images,
    read_tasks,
)
from pipeline.encoders.device import choose_device
from pipeline.encoders.image_decoding import decode
from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.encoders.view_refiner import ViewRefiner
from pipeline.errors import ModelError, ParamsError
from pipeline.execution.extraction import worker_count
from pipeline.execution.ordered_map import ordered_map
from pipeline.method.adversarial_refinement import Ascent, JointConstant, SourceBranch
from pipeline.method.frequency_views import ViewSettings
from pipeline.params import Params
from pipeline.stages import places
from pipeline.stages.backbones import build_image_encoder
from pipeline.stages.method_options import method_options
from pipeline.stages.task_classes import task_classes
from pipeline.stages.wanted_views import wanted_views
from pipeline.store.array_store import open_arrays
from pipeline.store.basis_file import read_bases
from pipeline.store.embedding_store import open_embeddings
from pipeline.store.pseudo_label_store import SCHEMA as LABELS
from pipeline.store.refined_store import write_refined
from pipeline.store.source_store import read_source
from pipeline.store.stored_rows import rows_of

Rows = npt.NDArray[np.intp]
Embedded = Mapping[str, npt.NDArray[np.floating]]


@dataclass(frozen=True, eq=False)
class Piece:
    """Images that are refined together: row numbers (n,), the branch whose loss they climb, and their pseudo-labels.

    places: (n,) or (n, 2), the labels by their places among the task's classes, as `SourceBranch.log_odds` takes them.
    Without steps there is no branch.
    """

    rows: Rows
    branch: SourceBranch | None
    places: Rows


@dataclass(frozen=True, eq=False)
class Target:
    """What is read of the target domain."""

    images: list[ImageRow]
    tasks: Tasks
    classes: list[ClassRow]

    @classmethod
    def read(cls, domain: str) -> Target:
        """Read images.csv, tasks.csv and classes.csv."""
        folder = places.manifest_folder(domain)
        images = read_images(folder / "images.csv")
        tasks = read_tasks(folder / "tasks.csv", rows=len(images))
        return cls(images, tasks, read_classes(folder / "classes.csv"))


@dataclass(frozen=True, eq=False)
class Worker:
    """Refines pieces of the target's images: decoded, cropped, refined, embedded."""

    images: list[ImageRow]
    encoder: ImageEncoder
    refiner: ViewRefiner
    views: list[str]
    params: Params

    @property
    def stored_as(self) -> str:
        """The type of the rows, that of the views they take the place of."""
        return self.params.models[self.params.vision].stored_as

    def embed(self, piece: Piece) -> Embedded:
        """Return the refined embeddings (n, d) of a piece by view."""
        rows = [self.images[row] for row in piece.rows]
        crops = [
            self.encoder.preprocessing.crop(
                decode(
                    Path(row.path),
                    expected_sha256=row.sha256,
                    upright=self.encoder.preprocessing.upright,
                )
            )
            for row in rows
        ]
        return self.refiner(
            np.stack(crops),
            [bytes.fromhex(row.sha256) for row in rows],
            self.views,
            branch=piece.branch,
            places=piece.places,
            dtype=self.stored_as,
        )

    def fill(self, of_seed: Embedded, pieces: list[Piece]) -> None:
        """Put the refined rows of the pieces into the arrays (n, d) of one seed."""
        # An accelerator is fed by one thread: refining outlasts decoding by far.
        parallel = self.refiner.is_thread_parallel
        workers = worker_count(self.params.runtime.workers) if parallel else 1
        results = ordered_map(
            self.embed,
            pieces,
            workers=workers,
            ahead=2 * workers,
            initializer=partial(torch.set_num_threads, 1),
        )
        total = sum(len(piece.rows) for piece in pieces)
        with tqdm(total=total, unit=" images", disable=None, smoothing=0.05) as bar:
            for piece, embedded in zip(pieces, results, strict=True):
                for view, rows in embedded.items():
                    of_seed[view][piece.rows] = rows
                bar.update(len(piece.rows))


def refine_views(params: Params, name: str) -> str:
    """Write cache/refined/PROBLEM.zarr; return what to tell."""
    domain = params.problems[name].target
    views = _views(params, domain)
    target = Target.read(domain)
    worker = _worker(params, target, views)
    shape = (len(target.tasks.seeds), len(target.images), worker.encoder.width)
    places.SCRATCH.mkdir(parents=True, exist_ok=True)
    # The rows of all seeds may be more than the memory holds: they wait in files.
    with tempfile.TemporaryDirectory(dir=places.SCRATCH, prefix="refine-") as folder:
        filled = {view: _nan_file(Path(folder) / view, shape, worker.stored_as) for view in views}
        if params.refinement.steps:
            _refine_each_seed(filled, params, name, target, worker)
        else:
            _refine_once(filled, target, worker)
        attributes = {
            "problem": name,
            "refinement": params.refinement.model_dump(),
            "weights": worker.encoder.fingerprint,
        }
        write_refined(places.refined(name), filled, attributes)
        del filled  # closes the files before they are removed
    return f"{', '.join(views)} of {shape[1]} images, {shape[0]} seeds"


def _views(params: Params, domain: str) -> list[str]:
    """Return the views to refine; refuse where there is no backbone, or nothing to refine."""
    spec = params.models[params.vision]
    remedy = "set refinement.steps: 0 and refinement.mutual_attention: false"
    if spec.library == "imported":
        raise ModelError(
            f"refinement: model {params.vision!r} ({spec.name}) is imported: there is no backbone to refine views "
            f"with; {remedy}"
        )
    views = [view for view in wanted_views(params, domain, params.vision) if view != "original"]
    if not views:
        raise ParamsError(
            f"refinement: domains.{domain}.views has no view but the original; add zeros or rand, or {remedy}"
        )
    return views


def _worker(params: Params, target: Target, views: list[str]) -> Worker:
    torch.set_num_threads(1)  # parallel over passes instead: see view_refiner
    spec = params.models[params.vision]
    encoder = build_image_encoder(spec, choose_device(params.runtime.device))
    refiner = ViewRefiner(
        encoder,
        ViewSettings(**params.views.model_dump()),
        Ascent(**params.refinement.model_dump(exclude={"mutual_attention"})),
        attention=params.refinement.mutual_attention,
        rows=params.runtime.batch_size,
    )
    return Worker(target.images, encoder, refiner, views, params)


def _nan_file(path: Path, shape: tuple[int, ...], dtype: str) -> npt.NDArray[np.floating]:
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape)
    array[...] = np.nan
    return array


def _refine_each_seed(
    filled: Embedded, params: Params, name: str, target: Target, worker: Worker
) -> None:
    """Refine every seed's train rows against its own source model and pseudo-labels."""
    source = params.problems[name].source
    bases = read_bases(places.bases(source))
    labels = open_arrays(places.pseudo_labels(name), LABELS)
    class_names = [row.class_name for row in target.classes]
    share = method_options(params.method).clip_in_kernel
    said = rows_of(
        open_embeddings(places.embeddings(params.problems[name].target, params.language)),
        "original",
    )
    for index, seed in enumerate(target.tasks.seeds):
        label = labels.read("label", index)
        models = list(read_source(places.source_model(source), index, class_names))
        basis, train = bases.basis(index), ~target.tasks.is_test(seed)
        pieces: list[Piece] = []
        for task, classes in enumerate(task_classes(target.classes)):
            rows = np.flatnonzero((target.tasks.task == task) & train)
            in_task = np.searchsorted(classes, label[rows])
            clip = None
            if (
                share
            ):  # CLIP's part of the kernel's input is the original's, whatever the view's pixels
                clip = JointConstant(basis, said[rows], share)
                in_task = np.stack([in_task, np.arange(len(rows))], axis=1)
            branch = SourceBranch(basis, models[task].classifier, classes, clip)
            pieces += _pieces(rows, branch, in_task, worker.refiner.rows)
        worker.fill({view: array[index] for view, array in filled.items()}, pieces)


def _refine_once(filled: Embedded, target: Target, worker: Worker) -> None:
    """Without steps nothing depends on a label: all rows once, for every seed, but for its test images."""
    rows = np.arange(len(target.images))
    pieces = list(_pieces(rows, None, np.zeros_like(rows), worker.refiner.rows))
    worker.fill({view: array[0] for view, array in filled.items()}, pieces)
    for array in filled.values():
        for index, seed in reversed(list(enumerate(target.tasks.seeds))):
            array[index] = array[0]
            array[index, target.tasks.is_test(seed)] = np.nan


def _pieces(rows: Rows, branch: SourceBranch | None, in_task: Rows, size: int) -> Iterator[Piece]:
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        yield Piece(rows[part], branch, in_task[part])
