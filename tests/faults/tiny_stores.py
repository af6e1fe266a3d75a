"""Make a tiny store of every kind with the real writers, and read it as a stage does."""

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.datasets.manifest_files import (
    ImageRow,
    Manifest,
    read_class_names,
    read_images,
    read_labels,
    write_manifest,
)
from pipeline.datasets.task_files import ClassRow, Tasks, read_classes, read_tasks, write_tasks
from pipeline.method.fusion import PseudoLabels
from pipeline.method.kernel_lda import Classifier
from pipeline.method.source_model import SourceModel, SourceScatter
from pipeline.store import embedding_store, source_store
from pipeline.store.array_store import writing
from pipeline.store.basis_file import BasisRecipe, basis_digest, read_bases, write_bases
from pipeline.store.embedding_store import EmbeddedView, open_embeddings, write_embeddings
from pipeline.store.progress_log import ProgressLog
from pipeline.store.prompt_store import Prompts, open_prompts, write_prompts
from pipeline.store.source_store import read_source, reserve_scatters, write_models, write_scatters
from pipeline.store.target_store import AdaptedSeed, open_target, read_classifiers, read_pseudo_labels, write_target

CLASSES = ["ant", "bee", "cat", "dog"]
BACKBONES = {"vision": {"weights": "a"}, "language": {"weights": "b"}}
TASKS = [np.array([0, 1]), np.array([2, 3])]
SHARD, CHUNK, ROWS, WIDTH = 8, 4, 11, 3


@dataclass(frozen=True)
class TinyStore:
    """The path of a store, and a function that returns everything a stage reads from it."""

    path: Path
    contents: Callable[[], Any]

    def read(self) -> bytes:
        """Return everything a stage reads, as bytes."""
        return pickle.dumps(self.contents())

    def files(self) -> list[Path]:
        """Return all files of the store."""
        if self.path.is_file():
            return [self.path]
        return sorted(file for file in self.path.rglob("*") if file.is_file())


def embeddings(folder: Path, monkeypatch: Any) -> TinyStore:
    monkeypatch.setattr(embedding_store, "SHARD_ROWS", SHARD)
    monkeypatch.setattr(embedding_store, "CHUNK_ROWS", CHUNK)
    path = folder / "e.zarr"
    x = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float16)
    views = {
        view: EmbeddedView(ROWS, WIDTH, "float16", {"level": 1}, [x[:SHARD], x[SHARD:]])
        for view in ("original", "zeros")
    }
    write_embeddings(path, views, {"domain": "a", "weights": "w", "rows_digest": "d"})

    def contents() -> Any:
        store = open_embeddings(path)
        rows = [(store.read(view).tobytes(), store.settings(view)) for view in store.views]
        return rows, sorted(store.provenance.items(), key=str), store.views

    return TinyStore(path, contents)


def prompts(folder: Path, _: Any) -> TinyStore:
    path = folder / "p.zarr"
    text = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    write_prompts(path, Prompts(text, 10.5, {"classes": CLASSES, "domain": "a"}))

    def contents() -> Any:
        stored = open_prompts(path)
        return stored.text.tobytes(), stored.logit_scale, sorted(stored.provenance.items())

    return TinyStore(path, contents)


def models() -> list[SourceModel]:
    """Return the models after two tasks of two classes each, with D = 5."""
    rng = np.random.default_rng(0)
    means, embedding_means = rng.standard_normal((4, 5)), rng.standard_normal((4, 3))
    return [
        SourceModel(
            means[:K],
            Classifier(rng.standard_normal((5, K)), rng.standard_normal(K)),
            embedding_means[:K],
            SourceScatter(rng.standard_normal(15).astype(np.float32), 12.0, 8.0),
        )
        for K in (2, 4)
    ]


def source(folder: Path, _: Any) -> TinyStore:
    path = folder / "s.zarr"
    with writing(path, source_store.SCHEMA) as store:
        write_models(store, CLASSES, BACKBONES, [write_scatters(reserve_scatters(store, 1, 2, 5), 0, models())])

    def contents() -> list[Any]:
        parts: list[Any] = []
        for model in read_source(path, 0, CLASSES, with_scatter=True):
            parts += [model.means, model.classifier.W, model.classifier.b, model.embedding_means]
            if model.scatter is not None:
                parts += [model.scatter.triangle, model.scatter.total, model.scatter.degrees]
        return parts

    return TinyStore(path, contents)


def pseudo_labels() -> list[Any]:
    """Return row numbers and pseudo-labels of two tasks."""
    fused = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
    labels = PseudoLabels(np.array([1, 0, 0]), fused, np.array([0.2, 0.0, 1.0]), np.ones(3, bool))
    return [(np.arange(3), labels), (np.arange(4, 7), replace(labels, label=labels.label + 2))]


def target(folder: Path, _: Any) -> TinyStore:
    path = folder / "t.zarr"
    adapted = AdaptedSeed([model.classifier for model in models()], pseudo_labels())
    attributes = {"problem": "a-b", "classes": CLASSES}
    write_target(path, [adapted], rows=8, attributes=attributes)

    def contents() -> list[Any]:
        store = open_target(path)
        labels = read_pseudo_labels(store, 0, 8)
        classifiers = [(c.W, c.b) for c in read_classifiers(store, 0)]
        return [*classifiers, labels.label, labels.weight, labels.kept, labels.fused]

    return TinyStore(path, contents)


def basis(folder: Path, _: Any) -> TinyStore:
    path = folder / "b.json"
    recipe = BasisRecipe(3, 5, "gamma", False, (0, 1), (0.1, 0.1))
    write_bases(path, recipe, [basis_digest(recipe.draw(i)) for i in range(2)])

    def contents() -> list[Any]:
        bases = read_bases(path)
        return [bases.recipe, *((b.omega, b.beta) for b in map(bases.basis, range(2)))]

    return TinyStore(path, contents)


def manifest(folder: Path, _: Any) -> TinyStore:
    digests = [hashlib.sha256(bytes([i])).hexdigest() for i in range(8)]
    labels = [name for name in CLASSES for _ in range(2)]
    images = tuple(ImageRow(f"d/{name}/{i}.png", digests[i], 4, 3) for i, name in enumerate(labels))
    path = folder / "m"
    write_manifest(Manifest(images, labels, CLASSES, report={}), path)
    tasks = Tasks(np.arange(8) // 4, (0, 3), np.arange(16).reshape(8, 2) % 3 == 0)
    classes = [ClassRow(c, name, c // 2) for c, name in enumerate(CLASSES)]
    write_tasks(tasks, classes, path)
    (path / "report.json").unlink()  # not read by any stage

    def contents() -> list[Any]:
        tasks, (labels, digest) = read_tasks(path), read_labels(path)
        arrays = [array.tobytes() for array in (tasks.task, tasks.test, labels)]
        return [read_images(path), *arrays, tasks.seeds, digest, read_classes(path), read_class_names(path)]

    return TinyStore(path, contents)


def progress_log(folder: Path, _: Any) -> TinyStore:
    """Make a log of rows from a killed extraction; damaged rows must be computed again, never used."""
    path = folder / "log"
    digests = [hashlib.sha256(bytes([i])).digest() for i in range(6)]
    x = np.random.default_rng(0).standard_normal((6, WIDTH)).astype(np.float16)
    with ProgressLog(path, "w", width=WIDTH, dtype="float16") as log:
        log.append(digests[:4], x[:4])
        log.append(digests[4:], x[4:])

    def contents() -> bytes:
        with ProgressLog(path, "w", width=WIDTH, dtype="float16") as log:
            rows = [log.gather([d])[0] if d in log else x[i] for i, d in enumerate(digests)]
        return np.array(rows).tobytes()

    return TinyStore(path, contents)


KINDS = (embeddings, prompts, source, target, basis, manifest, progress_log)
