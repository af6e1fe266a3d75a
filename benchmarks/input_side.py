"""Images per second and core that reach an accelerator: read, check, decode, scale and crop. One thread, CPU time.

The views and the normalisation run on the accelerator; `benchmarks.views` measures the views.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image as Pillow

from benchmarks.photos import write_photos
from benchmarks.row import Row, at_least
from benchmarks.timing import best_in_turns
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.extraction.images import Image, load_crops

COUNT, SIZE, SCALED = 16, 224, 248  # 248 = 224 / 0.9
HALF = (0.5, 0.5, 0.5)
PREPROCESSING = Preprocessing(SIZE, SIZE, 0.9, "shortest", "bicubic", HALF, HALF)


def pillow_crop(path: Path) -> np.ndarray:
    """Decode, scale and crop as torchvision's Resize and CenterCrop do; (224, 224, 3), uint8."""
    image = Pillow.open(path).convert("RGB")
    scale = SCALED / min(image.size)
    width, height = (int(side * scale) for side in image.size)
    image = image.resize((width, height), Pillow.Resampling.BICUBIC)
    left, top = round((width - SIZE) / 2), round((height - SIZE) / 2)
    return np.asarray(image.crop((left, top, left + SIZE, top + SIZE)))


def rows(quick: bool) -> list[Row]:
    """Crop the same photos both ways."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_photos(Path(folder), COUNT)
        images = [Image(path, hashlib.sha256(path.read_bytes()).digest()) for path in paths]
        ours, pillow = best_in_turns(
            lambda: load_crops(images, PREPROCESSING),
            lambda: np.stack([pillow_crop(path) for path in paths]),
            rounds=10 if quick else 40,
            clock=time.thread_time,
        )
    return [
        at_least(
            "images/s per core that reach an accelerator (decode and crop), 500-pixel JPEGs",
            pillow / ours,
            "Pillow's decode, bicubic resize and crop; nothing checked",
            1,
            f"{COUNT / ours:.0f} (sha256 checked) against {COUNT / pillow:.0f} images/s",
        )
    ]
