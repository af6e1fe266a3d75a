"""The input side of `embed`: read, check, decode, scale, crop, three views, normalise. One thread, CPU time.

The whole of it against the naive loop; then without decoding, which is the same library's work on both sides.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from benchmarks import naive_input
from benchmarks.photos import write_photos
from benchmarks.row import Row, at_least
from benchmarks.timing import best_in_turns
from pipeline.encoders import native
from pipeline.encoders.image_decoding import decode
from pipeline.encoders.normalised_views import NormalisedViews
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.encoders.view_embedder import CPU_ROWS
from pipeline.method.frequency_views import VIEWS, ViewSettings, noise_words

COUNT = CPU_ROWS
SETTINGS = ViewSettings()
HALF = (0.5, 0.5, 0.5)
PREPROCESSING = Preprocessing(224, 224, 0.9, "shortest", "bicubic", HALF, HALF)
BASELINE = "Pillow and PyWavelets, one image and channel at a time"


class Batch:
    """What a worker of `embed` does with a batch before the model sees it."""

    def __init__(self, paths: list[Path], views: NormalisedViews) -> None:
        self.paths = paths
        self.digests = [hashlib.sha256(path.read_bytes()).digest() for path in paths]
        self.views = views

    def decode(self) -> list[Image.Image]:
        """Read, check and decode every file."""
        both = zip(self.paths, self.digests, strict=True)
        return [decode(path, expected_sha256=digest.hex()) for path, digest in both]

    def crop(self, images: list[Image.Image]) -> np.ndarray:
        """Scale and crop every image."""
        return np.stack([PREPROCESSING.crop(image) for image in images])

    def draw(self) -> torch.Tensor:
        """Draw the noise's words."""
        return torch.from_numpy(noise_words((3, 224, 224), SETTINGS, self.digests))

    def see(self, crops: np.ndarray, words: torch.Tensor) -> dict[str, torch.Tensor]:
        """Make the normalised views."""
        return self.views(torch.from_numpy(crops), self.digests, VIEWS, words)

    def whole(self) -> dict[str, torch.Tensor]:
        """Do all of it."""
        return self.see(self.crop(self.decode()), self.draw())


def pillow_decodes(contents: list[bytes]) -> None:
    """Decode and do nothing else: what both sides have in common."""
    for content in contents:
        Image.open(io.BytesIO(content)).load()


def rows(quick: bool) -> list[Row]:
    """Measure the whole, the parts of ours, and decoding."""
    torch.set_num_threads(1)
    views = NormalisedViews(PREPROCESSING, SETTINGS, torch.device("cpu"))
    with tempfile.TemporaryDirectory() as folder:
        paths = write_photos(Path(folder), COUNT)
        contents = [path.read_bytes() for path in paths]
        ours = Batch(paths, views)
        images, words = ours.decode(), ours.draw()
        crops = ours.crop(images)
        rng = np.random.default_rng(0)
        times = best_in_turns(
            ours.whole,
            lambda: [naive_input.views_of(path, rng) for path in paths],
            lambda: pillow_decodes(contents),
            ours.decode,
            lambda: ours.crop(images),
            ours.draw,
            lambda: ours.see(crops, words),
            rounds=10 if quick else 40,
            clock=time.thread_time,
        )
    whole, naive, decoding, *parts = (1000 * t / COUNT for t in times)
    names = ("read, check and decode", "scale and crop", "draw noise", "views and normalise")
    split = ", ".join(f"{name} {part:.2f}" for name, part in zip(names, parts, strict=True))
    how = "compiled" if native.library() else "not compiled"
    rest = (naive - decoding) / (whole - decoding)
    return [
        at_least(
            "input side of embed, 500-pixel JPEGs, per core",
            naive / whole,
            BASELINE,
            4,
            f"{1000 / whole:.0f} against {1000 / naive:.0f} images/s; ours {whole:.2f} ms ({how}): {split}; "
            f"naive {naive:.2f} ms",
        ),
        at_least(
            "the same without decoding",
            rest,
            BASELINE,
            4,
            f"libjpeg takes {decoding:.2f} ms of either side; the rest {whole - decoding:.2f} against "
            f"{naive - decoding:.2f} ms",
        ),
    ]
