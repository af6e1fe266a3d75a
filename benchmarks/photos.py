"""Photographs to measure with: pieces of the two that scikit-learn carries, 500 pixels wide or high, as JPEG."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import sklearn.datasets
from PIL import Image

NAMES = ("china.jpg", "flower.jpg")
SIZES = ((500, 375), (500, 333), (375, 500), (500, 400))  # width, height
QUALITY = 90


def write_photos(folder: Path, count: int) -> list[Path]:
    """Write ``count`` different photos to ``folder``, of about 50 kB each; the same in every run."""
    folder.mkdir(parents=True, exist_ok=True)
    originals = [Image.open(_shipped(name)).convert("RGB") for name in NAMES]
    rng = np.random.default_rng(0)
    return [_write(folder / f"{i}.jpg", originals[i % 2], SIZES[i % 4], rng) for i in range(count)]


def _shipped(name: str) -> Path:
    return Path(sklearn.datasets.__file__).parent / "images" / name


def _write(path: Path, original: Image.Image, size: tuple[int, int], rng: np.random.Generator) -> Path:
    """Cut a random piece of the original with the shape of ``size``, scale it, write it."""
    most = min(original.width / size[0], original.height / size[1])
    scale = most * rng.uniform(0.7, 1.0)
    width, height = int(size[0] * scale), int(size[1] * scale)
    left = int(rng.integers(0, original.width - width + 1))
    top = int(rng.integers(0, original.height - height + 1))
    piece = original.crop((left, top, left + width, top + height))
    piece.resize(size, Image.Resampling.BICUBIC).save(path, quality=QUALITY)
    return path
