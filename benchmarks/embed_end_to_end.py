"""`embed` from files to a store against the bare forward passes it contains: what everything but the model costs.

Both sides run the same number of passes of the same model, 16 rows, float32, with as many threads in all. The bare
passes take random tensors; of the two ways to run them (a thread per pass, all threads on one pass) the faster counts.
Building the model and importing the libraries is not part of it: it does not grow with the images.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from safetensors.torch import save_file

from benchmarks.photos import write_photos
from benchmarks.row import Row, at_least
from benchmarks.timing import best_in_turns
from pipeline.datasets.manifest_files import ImageRow
from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.encoders.timm_encoder import build
from pipeline.encoders.torchvision_ops import ensure_torchvision_ops
from pipeline.encoders.view_embedder import CPU_ROWS
from pipeline.execution.extraction import worker_count
from pipeline.params import Params, parse_params
from pipeline.stages.embed_images import embed_with

VIEWS = ("original", "zeros", "rand")
MODELS = {True: "vit_small_patch16_224", False: "vit_base_patch16_224"}  # by `quick`


def parameters(model: str, workers: int) -> Params:
    """Return the params of one domain of photos and one model."""
    domain = {"dataset": "photos", "images": "photos", "views": VIEWS, "templates": ["a {}"]}
    sections: dict[str, Any] = {
        "suite": "benchmark",
        "data": {"seeds": [0], "test_fraction": 0.5},
        "datasets": {"photos": {"classes_per_task": 1, "class_names": {}}},
        "domains": {"photos": domain},
        "models": {
            "vit": {"library": "timm", "name": model, "origin": "weights.safetensors"},
            "clip": {"library": "open_clip", "name": "none", "origin": "none"},
        },
        "vision": "vit",
        "language": "clip",
        "views": {},
        "rff": {},
        "method": {},
        "compare": {"methods": ["calibrated"]},
        "sensitivity": {"D": [100], "sigma": [1e-4]},
        **{key: {} for key in ("generated", "lists", "sources", "problems", "swept", "refinement")},
        "runtime": {"device": "cpu", "workers": workers},
    }
    return parse_params(sections)


def random_encoder(model: str) -> ImageEncoder:
    """Build a timm model with random weights, by way of a checkpoint, as every model is built."""
    ensure_torchvision_ops()
    import timm

    torch.manual_seed(0)
    made = timm.create_model(model, num_classes=0)
    save_file(made.state_dict(), "weights.safetensors")
    return build(model, origin=Path("weights.safetensors"))


def photo_rows(count: int) -> list[ImageRow]:
    """Write photos and return their rows of a manifest."""
    rows = []
    for path in write_photos(Path("photos"), count):
        width, height = Image.open(path).size
        rows.append(
            ImageRow(str(path), hashlib.sha256(path.read_bytes()).hexdigest(), width, height)
        )
    return rows


def bare_passes(encoder: ImageEncoder, count: int, workers: int) -> Callable[[], None]:
    """Return ``count`` forward passes of random tensors, a thread per pass."""
    batch = torch.randn(CPU_ROWS, 3, 224, 224)

    def run() -> None:
        with ThreadPoolExecutor(workers, initializer=partial(torch.set_num_threads, 1)) as pool:
            for done in [pool.submit(encoder.embed_normalised, batch) for _ in range(count)]:
                done.result()

    return run


def all_threads_on_each(encoder: ImageEncoder, count: int, workers: int) -> Callable[[], None]:
    """Return ``count`` forward passes of random tensors, one after another, all threads on each."""
    batch = torch.randn(CPU_ROWS, 3, 224, 224)

    def run() -> None:
        torch.set_num_threads(workers)
        for _ in range(count):
            encoder.embed_normalised(batch)
        torch.set_num_threads(1)

    return run


def rows(quick: bool) -> list[Row]:
    """Embed photos with a vision transformer of real size, in all three views."""
    torch.set_num_threads(1)
    workers = worker_count(0)
    model, batches = MODELS[quick], workers * (1 if quick else 2)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        encoder = random_encoder(model)
        images = photo_rows(batches * CPU_ROWS)
        params = parameters(model, workers)
        passes = batches * len(VIEWS)

        def embed() -> None:
            shutil.rmtree(".referee", ignore_errors=True)  # nothing is taken up again
            embed_with(encoder, params, "photos", "vit", images)

        encoder.embed_normalised(torch.randn(CPU_ROWS, 3, 224, 224))  # warm
        bare = [bare_passes(encoder, passes, workers)]
        if not quick:
            bare.append(all_threads_on_each(encoder, passes, workers))
        ours, *others = best_in_turns(embed, *bare, rounds=1 if quick else 4, warm_up=False)
    count = len(images)
    rates = " and ".join(f"{count / other:.2f}" for other in others)
    return [
        at_least(
            f"embed end to end, {model}, CPU",
            min(others) / ours,
            "the bare forward passes on random tensors",
            0.95,
            f"{count / ours:.2f} against {rates} images/s, {len(VIEWS)} views each, {workers} threads "
            f"(a thread per pass{'' if quick else ', all threads on each pass'})",
        )
    ]
