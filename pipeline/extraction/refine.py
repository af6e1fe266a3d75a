"""Refine the views of a target's train images for every seed, and embed them.

Refined views depend on the seed, because its pseudo-labels and source model do. Without steps (mutual attention only)
they do not and are computed once.
"""

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.errors import ModelError, ParamsError
from pipeline.extraction.embedding_settings import EmbeddingSettings
from pipeline.extraction.image_embedder import Batch, ImageEmbedder
from pipeline.extraction.images import Image
from pipeline.extraction.progress import Progress
from pipeline.method.adversarial_refinement import Ascent, SourceBranch, ascend
from pipeline.method.frequency_views import frequency_views
from pipeline.method.rows import Index, Matrix
from pipeline.method.variants import MethodOptions
from pipeline.problem.problem import Problem
from pipeline.problem.seed_adaptation import RefinedViews, label_seed
from pipeline.store.target_store import TaskLabels


@dataclass(frozen=True, eq=False)
class TaskToRefine:
    """Train images of one task of one seed, and the classifier and labels of the loss that their views increase."""

    rows: Index  # (n,) row numbers of the images
    branch: SourceBranch | None  # the source classifier over the task's classes; None without steps
    # (n,) or, with CLIP in the kernel, (n, 2): pseudo-labels as `SourceBranch.log_odds` takes them
    labels: Index


@dataclass(frozen=True, eq=False)
class BatchToRefine(Batch):
    """Some images of a task."""

    task: TaskToRefine  # restricted to the images of the batch


def views_to_refine(domain: str, views: Sequence[str], model: str, library: str) -> tuple[str, ...]:
    """Return the views to refine, all but the original; ``domain`` and ``model`` are keys for messages."""
    remedy = "set refinement.steps: 0 and refinement.mutual_attention: false"
    if library == "imported":
        raise ModelError(
            f"refinement: models.{model} is imported, so there is no backbone to refine views with; {remedy}"
        )
    refined = tuple(view for view in views if view != "original")
    if not refined:
        raise ParamsError(f"refinement: domains.{domain}.views has no view but the original; add another, or {remedy}")
    return refined


def tasks_to_refine(
    problem: Problem, options: MethodOptions, labels: Iterable[TaskLabels], seed_index: int
) -> Iterator[TaskToRefine]:
    """Yield the tasks of a seed, given its first ``labels`` of every task.

    If CLIP is in the kernel (``clip_in_kernel``), its embedding is always that of the original image.
    """
    target, basis, weight = problem.target, problem.bases.basis(seed_index), options.clip_in_kernel
    sources = problem.source_models(seed_index)
    for classes, source, (rows, labelled) in zip(target.class_sets, sources, labels, strict=True):
        clip_rows = np.asarray(target.clip_rows[rows]) if weight else None
        branch = SourceBranch(basis, source.classifier, classes, clip_rows, weight)
        positions = np.searchsorted(classes, labelled.label)  # classes of a task are in ascending order
        numbered = np.stack([positions, np.arange(len(rows))], axis=1)
        yield TaskToRefine(rows, branch, numbered if weight else positions)


@contextmanager
def refined_problem(
    problem: Problem,
    options: MethodOptions,
    images: Sequence[Image],
    views: Sequence[str],
    settings: EmbeddingSettings,
    *,
    ascent: Ascent,
    attention: bool,
    for_each_seed: Callable[..., list[Any]],
    scratch: Path,
) -> Iterator[RefinedViews]:
    """Label, refine and embed ``views`` of the train images of all seeds of a problem.

    ``images`` are all n images of the target. ``for_each_seed`` calls a function of ``seed_index`` and a row reduction,
    like `executor.Executor.for_each_seed`. Rows may exceed memory and are therefore stored as one .npy file (S, n, d)
    per view in the folder ``scratch``, until the ``with`` block ends. Rows of test images are NaN.
    """
    target = problem.target
    if target.hidden or target.label_space is not None or options.reject != "none":
        raise ParamsError(
            f"params.yaml: refinement: views are refined towards labels of the closed set, and {problem.name} has "
            "hidden classes, a label space or rejected images; set refinement.steps: 0 and mutual_attention: false"
        )
    labels = for_each_seed(partial(label_seed, problem=problem, options=options))
    train = np.array([~target.tasks.test_mask(seed) for seed in target.seeds])  # (S, n)
    refiner = ViewRefiner(ImageEmbedder.build(settings).encoder, settings, ascent, attention=attention)
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch, prefix="refine-") as folder:
        shape, dtype = (*train.shape, refiner.encoder.width), settings.backbone.stored_as
        files = {view: Path(folder, f"{view}.npy") for view in views}
        arrays = {view: np.lib.format.open_memmap(file, "w+", dtype, shape) for view, file in files.items()}
        for array in arrays.values():
            array[...] = np.nan
        if ascent.steps:
            for seed_index in range(len(train)):
                tasks = tasks_to_refine(problem, options, labels[seed_index], seed_index)
                refiner.fill({view: array[seed_index] for view, array in arrays.items()}, tasks, images)
        else:
            rows = np.arange(len(images))
            whole = TaskToRefine(rows, None, np.zeros_like(rows))
            refiner.fill({view: array[0] for view, array in arrays.items()}, [whole], images)
            for array in arrays.values():
                for seed in reversed(range(len(train))):  # the first seed last, as it is copied to the others
                    array[seed] = array[0]
                    array[seed, ~train[seed]] = np.nan
        del arrays  # closes the files
        yield RefinedViews(files, labels)


def _batches(task: TaskToRefine, images: Sequence[Image], views: tuple[str, ...], size: int) -> Iterator[BatchToRefine]:
    for start in range(0, len(task.rows), size):
        part = TaskToRefine(task.rows[start : start + size], task.branch, task.labels[start : start + size])
        yield BatchToRefine(tuple(images[row] for row in part.rows), views, part)


class ViewRefiner(ImageEmbedder):
    """Embeds views of images after refining them against pseudo-labels.

    If ``attention`` is set, tokens of a view and of the original attend to each other before pooling.
    """

    def __init__(self, encoder: ImageEncoder, settings: EmbeddingSettings, ascent: Ascent, *, attention: bool) -> None:
        super().__init__(encoder, settings)
        self._ascent = ascent
        self._tokens = TokenModel(encoder) if attention else None

    def fill(self, by_view: Mapping[str, Matrix], tasks: Iterable[TaskToRefine], images: Sequence[Image]) -> None:
        """Write the refined rows of the tasks into the arrays (n, d) of one seed; ``images`` are all n."""
        batches = [batch for task in tasks for batch in _batches(task, images, tuple(by_view), self.batch_size)]
        with Progress("refine", sum(len(batch.images) for batch in batches)) as bar:
            for batch, embedded in self.embed(batches):
                for view, rows in embedded.items():
                    by_view[view][batch.task.rows] = rows
                bar.update(len(batch.images))

    def embed_part(  # type: ignore[override]  # accepts only BatchToRefine
        self, batch: BatchToRefine, part: slice, images: Tensor, words: Tensor
    ) -> dict[str, Tensor]:
        """Return the rows (n, d) of the refined views of ``images`` (n, 3, h, w), a part of a batch."""
        views = frequency_views(images, batch.views, self.settings.views, batch.digests[part], words)
        original, labels = self.padded(images), self.padded(torch.from_numpy(batch.task.labels[part]))
        branch, rows = batch.task.branch, {}
        for view, pixels in views.items():
            refined = self.padded(pixels)
            if branch is not None:
                loss = partial(branch.log_odds, positions=labels)
                refined = ascend(refined, self.encoder.differentiable, loss, self._ascent)
            rows[view] = self._embed(original, refined)[: len(images)]
        return rows

    def _embed(self, original: Tensor, view: Tensor) -> Tensor:
        if self._tokens is None:
            return self.encoder.embed(view)
        return self._tokens.pool(mutual_attention(self._tokens.tokens(original), self._tokens.tokens(view)))


class TokenModel:
    """A timm vision transformer, split into the tokens of its last block and their pooling to an embedding."""

    def __init__(self, encoder: ImageEncoder) -> None:
        self._encoder = encoder
        self._module: Any = encoder.module
        if not self._has_tokens():
            raise ModelError(
                f"refinement.mutual_attention: model {encoder.description.get('name')!r} has no patch tokens; "
                "set it to false, or choose a vision transformer of timm as `vision`"
            )

    def tokens(self, images: Tensor) -> Tensor:
        """Return the tokens (n, L, d), patches and any class tokens, of images (n, 3, h, w) in [0, 1]."""
        return self._encoder.run(self._module.forward_features, self._encoder.normalise(images))

    def pool(self, tokens: Tensor) -> Tensor:
        """Return the embeddings (n, d) of tokens (n, L, d) by the model's own pooling and later layers."""
        return self._encoder.run(self._module.forward_head, tokens)

    def _has_tokens(self) -> bool:
        """Return whether a black image has at least two tokens that pool to the model's own embedding."""
        if not all(hasattr(self._module, half) for half in ("forward_features", "forward_head")):
            return False
        size = (self._encoder.preprocessing.height, self._encoder.preprocessing.width)
        black = torch.zeros((1, 3, *size), device=self._encoder.device)
        try:
            tokens = self.tokens(black)
            if tokens.ndim != 3 or tokens.shape[1] < 2:
                return False
            return torch.allclose(self.pool(tokens), self._encoder.embed(black), atol=1e-2)
        except (AttributeError, RuntimeError, TypeError, ValueError):  # the methods of other models differ
            return False


def attend(queries: Tensor, keys: Tensor) -> Tensor:
    """Return softmax(q kᵀ / √d) k, (n, L, d), of queries (n, L, d) and keys (n, M, d), image by image."""
    similarity = queries @ keys.transpose(1, 2) / math.sqrt(queries.shape[-1])
    return torch.softmax(similarity, dim=-1) @ keys


def mutual_attention(original: Tensor, view: Tensor) -> Tensor:
    """Return tokens (n, L, d) of the content shared by the original's and the view's tokens (n, L, d).

    The paper's text mentions mutual attention ("stresses the correlated features while suppressing other unrelated
    information", below eq. (15)) but gives no formula, and its algorithm and the released code omit it. This version
    has no parameters, because nothing is trained: tokens serve as queries, keys and values. Each token of one image
    becomes a mean of the other's tokens, weighted by similarity, which keeps shared content and averages out the rest.

    The result is the mean of both directions, position by position, and therefore symmetric.
    """
    return (attend(original, view) + attend(view, original)) / 2
