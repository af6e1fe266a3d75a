"""Measure images per second of each part of the extraction on the available accelerator, at every precision.

    python -m benchmarks.accelerator [--device cuda] [--model vit_base_patch16_224] [--images 512] [--compile]

Decoding runs in threads parallel to the device, so `embed` takes as long as `decode` or all other parts, whichever is
slower. Random weights do not affect times. The last column is the smallest cosine of a row to its float32 row.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from benchmarks.embed_end_to_end import random_backbone
from benchmarks.images import write_photos
from pipeline.encoders.backbone import Backbone, build_image_encoder
from pipeline.encoders.device import choose_device, describe_device, fast_precision
from pipeline.errors import ModelError
from pipeline.extraction.images import load_crops
from pipeline.extraction.ordered_map import worker_count
from pipeline.method.frequency_views import ViewSettings, frequency_views, noise_words
from pipeline.method.views import VIEWS

PHOTOS = 64  # number of different photos, which are repeated for more images


def timed(device: torch.device, work: Callable[[], object]) -> float:
    """Return the seconds of the second run of ``work``, including everything it starts on the device."""

    def run_once() -> float:
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - start

    run_once()
    return run_once()


def main() -> None:
    """Print a table of images per second, with three views each, for each part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--model", default="vit_base_patch16_224")
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    device, settings = choose_device(args.device), ViewSettings()
    print(f"{describe_device(device)}, {args.model}, precision auto: {fast_precision(device)}")
    with tempfile.TemporaryDirectory() as name:
        images = write_photos(Path(name) / "photos", PHOTOS)
        backbone = random_backbone(args.model, Path(name))
        preprocessing = build_image_encoder(backbone, str(device)).preprocessing
        batches = [(images * -(-args.batch // PHOTOS))[: args.batch] for _ in range(max(1, args.images // args.batch))]
        with ThreadPoolExecutor(worker_count(0)) as pool:
            decode = timed(device, lambda: list(pool.map(lambda batch: load_crops(batch, preprocessing), batches)))
        crops = torch.from_numpy(load_crops(batches[0], preprocessing))
        digests = [image.digest for image in batches[0]]
        words = noise_words((3, *crops.shape[1:3]), settings, digests)

        def copied() -> list[torch.Tensor]:
            parts = (crops, torch.from_numpy(words))
            if device.type == "cuda":
                parts = tuple(part.pin_memory() for part in parts)
            return [part.to(device, non_blocking=True) for part in parts]

        copy = timed(device, copied) * len(batches)
        on_device, noise = copied()

        def views() -> dict[str, torch.Tensor]:
            pixels = on_device.permute(0, 3, 1, 2).float().div_(255.0)
            return frequency_views(pixels, VIEWS, settings, digests, noise)

        first_views, count = views(), args.batch * len(batches)
        shares = {"decode": decode, "copy": copy, "views": timed(device, views) * len(batches)}
        for part, seconds in shares.items():
            print(f"{part:18s} {count / seconds:10.1f} images/s")
        for precision in ("float32", "bfloat16", "float16"):
            precise = backbone.model_copy(update={"precision": precision})
            print(f"model, {precision:11s} {model_rate(precise, device, first_views, fused=args.compile)}")


def model_rate(backbone: Backbone, device: torch.device, views: dict[str, torch.Tensor], *, fused: bool) -> str:
    """Return images per second of a model, and the smallest cosine of a row to its float32 row."""
    try:
        encoder = build_image_encoder(backbone, str(device))
    except ModelError as error:
        return str(error)
    exact = build_image_encoder(backbone.model_copy(update={"precision": "float32"}), str(device))
    if fused:
        encoder.compile()
    seconds = timed(device, lambda: [encoder.embed(x) for x in views.values()])
    pairs = [(encoder.embed(x), exact.embed(x)) for x in views.values()]
    cosine = min(float(torch.cosine_similarity(row, exact_row).min()) for row, exact_row in pairs)
    return f"{len(views['original']) / seconds:10.1f} images/s   cosine {cosine:.6f}"


if __name__ == "__main__":
    main()
