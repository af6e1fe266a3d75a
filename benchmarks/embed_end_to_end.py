"""Compare `embed`, from image files to rows, with its bare forward passes, to measure the cost of everything else.

Both sides run the same number of passes of the same model, 16 rows, float32, with the same total number of threads. The
bare passes use random tensors and run in the faster of two ways: a thread per pass, or all threads on one pass.
The times do not include building the model and importing libraries, which do not depend on the number of images.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import save_file

from benchmarks.images import write_photos
from benchmarks.measure import Row, at_least, best_in_turns
from pipeline.encoders.backbone import Backbone
from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.encoders.torchvision_ops import ensure_torchvision_ops
from pipeline.extraction.embedding_settings import EmbeddingSettings
from pipeline.extraction.image_embedder import CPU_ROWS, ImageEmbedder, plan_batches
from pipeline.extraction.images import Image
from pipeline.extraction.ordered_map import worker_count
from pipeline.method.frequency_views import ViewSettings
from pipeline.method.views import VIEWS
from pipeline.store.progress_log import ProgressLog

MODELS = {True: "vit_small_patch16_224", False: "vit_base_patch16_224"}  # by `quick`


def random_backbone(model: str, folder: Path) -> Backbone:
    """Write random weights of a timm model, which take the same time as trained ones."""
    ensure_torchvision_ops()
    import timm

    torch.manual_seed(0)
    weights = folder / "weights.safetensors"
    save_file(timm.create_model(model, num_classes=0).state_dict(), weights)
    return Backbone(library="timm", name=model, origin=str(weights))


def random_embedder(model: str, folder: Path) -> ImageEmbedder:
    """Build a timm model with random weights on the CPU, from a checkpoint, as every model is built."""
    return ImageEmbedder.build(EmbeddingSettings(random_backbone(model, folder), ViewSettings(), device="cpu"))


def embed(embedder: ImageEmbedder, images: list[Image], folder: Path) -> None:
    """Embed images and write their rows to progress logs, as the stage does."""
    width = embedder.encoder.width
    with tempfile.TemporaryDirectory(dir=folder) as empty, ExitStack() as stack:
        logs = {
            view: stack.enter_context(ProgressLog(Path(empty, view), "w", width=width, dtype="float16"))
            for view in VIEWS
        }
        for batch, rows in embedder.embed(plan_batches(images, VIEWS, embedder.batch_size)):
            for view, log in logs.items():
                log.append(batch.digests, rows[view])


def thread_per_pass(encoder: ImageEncoder, count: int, workers: int) -> Callable[[], None]:
    """Return a function that runs ``count`` forward passes of random tensors, with a thread per pass."""
    batch = torch.randn(CPU_ROWS, 3, 224, 224)

    def run() -> None:
        with ThreadPoolExecutor(workers, initializer=partial(torch.set_num_threads, 1)) as pool:
            list(pool.map(lambda _: encoder.embed(batch), range(count)))

    return run


def all_threads_on_each(encoder: ImageEncoder, count: int, workers: int) -> Callable[[], None]:
    """Return a function that runs ``count`` forward passes of random tensors in turn, with all threads on each."""
    batch = torch.randn(CPU_ROWS, 3, 224, 224)

    def run() -> None:
        torch.set_num_threads(workers)
        for _ in range(count):
            encoder.embed(batch)
        torch.set_num_threads(1)

    return run


def rows(quick: bool) -> list[Row]:
    """Embed photos in all three views with a vision transformer of realistic size."""
    workers = worker_count(0)
    model, batches = MODELS[quick], workers * (1 if quick else 2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        embedder = random_embedder(model, folder)
        images = write_photos(folder / "photos", batches * CPU_ROWS)
        passes = batches * len(VIEWS)
        bare_passes = [thread_per_pass(embedder.encoder, passes, workers)]
        if not quick:
            bare_passes.append(all_threads_on_each(embedder.encoder, passes, workers))
        embedder.encoder.embed(torch.randn(CPU_ROWS, 3, 224, 224))  # warm up
        embedding, *forward_passes = best_in_turns(
            lambda: embed(embedder, images, folder), *bare_passes, rounds=1 if quick else 4, warm_up=False
        )
    rates = " and ".join(f"{len(images) / elapsed:.2f}" for elapsed in forward_passes)
    return [
        at_least(
            f"embed end to end, {model}, CPU",
            min(forward_passes) / embedding,
            "the bare forward passes on random tensors",
            0.95,
            f"{len(images) / embedding:.2f} against {rates} images/s, {len(VIEWS)} views each, {workers} threads "
            f"(a thread per pass{'' if quick else ', all threads on each pass'})",
        )
    ]
