"""Measure the preparation of images on one thread, in CPU time: crops (read, check, decode, scale, crop) and views.

Normalisation runs on the accelerator. So do the views, but here they run on the CPU, to compare them with PyWavelets.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from pathlib import Path

import numpy as np
import pywt
import sklearn.datasets
import torch
from PIL import Image as Pillow

from benchmarks.measure import Row, at_least, best_in_turns
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.extraction.images import Image, load_crops
from pipeline.method.frequency_views import ViewSettings, frequency_views

COUNT, SIZE, SCALED = 16, 224, 248  # 248 = 224 / 0.9
HALF = (0.5, 0.5, 0.5)
PREPROCESSING = Preprocessing(SIZE, SIZE, 0.9, "shortest", "bicubic", HALF, HALF)
CASES = (("haar", 1), ("haar", 3), ("db4", 1), ("sym8", 2))
SHIPPED = Path(sklearn.datasets.__file__).parent / "images"
PHOTO_SIZES = ((500, 375), (500, 333), (375, 500), (500, 400))  # width, height


def write_photos(folder: Path, count: int) -> list[Image]:
    """Write ``count`` different photos of about 50 kB each to ``folder``; they are the same in every run.

    They are random pieces of scikit-learn's two sample photos, scaled to 500 pixels wide or high, as JPEG.
    """
    folder.mkdir(parents=True, exist_ok=True)
    originals = [Pillow.open(SHIPPED / name).convert("RGB") for name in ("china.jpg", "flower.jpg")]
    rng, images = np.random.default_rng(0), []
    for i in range(count):
        original, size, path = originals[i % 2], PHOTO_SIZES[i % 4], folder / f"{i}.jpg"
        scale = min(original.width / size[0], original.height / size[1]) * rng.uniform(0.7, 1.0)
        width, height = int(size[0] * scale), int(size[1] * scale)
        left = int(rng.integers(0, original.width - width + 1))
        top = int(rng.integers(0, original.height - height + 1))
        piece = original.crop((left, top, left + width, top + height))
        piece.resize(size, Pillow.Resampling.BICUBIC).save(path, quality=90)
        images.append(Image(path, hashlib.sha256(path.read_bytes()).digest()))
    return images


def pillow_crop(path: Path) -> np.ndarray:
    """Decode, scale and crop as torchvision's Resize and CenterCrop do; (224, 224, 3), uint8."""
    image = Pillow.open(path).convert("RGB")
    scale = SCALED / min(image.size)
    width, height = (int(side * scale) for side in image.size)
    image = image.resize((width, height), Pillow.Resampling.BICUBIC)
    left, top = round((width - SIZE) / 2), round((height - SIZE) / 2)
    return np.asarray(image.crop((left, top, left + SIZE, top + SIZE)))


def crops(rounds: int) -> Row:
    """Compare our crops of photos with Pillow's."""
    with tempfile.TemporaryDirectory() as folder:
        images = write_photos(Path(folder), COUNT)
        referee, pillow = best_in_turns(
            lambda: load_crops(images, PREPROCESSING),
            lambda: np.stack([pillow_crop(image.path) for image in images]),
            rounds=rounds,
            clock=time.thread_time,
        )
    return at_least(
        "images/s per core that reach an accelerator (decode and crop), 500-pixel JPEGs",
        pillow / referee,
        "Pillow's decode, bicubic resize and crop; nothing checked",
        1,
        f"{COUNT / referee:.0f} (sha256 checked) against {COUNT / pillow:.0f} images/s",
    )


def by_pywavelets(images: np.ndarray, wavelet: str, level: int, rng: np.random.Generator) -> None:
    """Compute the views `zeros` and `rand` (matched noise) of images (n, 3, h, w), one channel at a time."""
    for image in images:
        for channel in image:
            low, *details = pywt.wavedec2(channel, wavelet, level=level)
            blank = [tuple(np.zeros_like(band) for band in bands) for bands in details]
            noisy = [
                tuple(rng.normal(0, band.std(), band.shape).astype(np.float32) for band in bands) for bands in details
            ]
            for replaced in (blank, noisy):
                np.clip(pywt.waverec2([low, *replaced], wavelet), 0, 1)


def views(wavelet: str, level: int, rounds: int) -> Row:
    """Compare our views of images with PyWavelets'."""
    rng = np.random.default_rng(0)
    images = rng.random((COUNT, 3, SIZE, SIZE), np.float32)
    keys = [hashlib.sha256(bytes([i])).digest() for i in range(COUNT)]
    settings, tensor = ViewSettings(wavelet, level), torch.from_numpy(images)
    referee, pywavelets = best_in_turns(
        lambda: frequency_views(tensor, ("zeros", "rand"), settings, keys),
        lambda: by_pywavelets(images, wavelet, level, rng),
        rounds=rounds,
        clock=time.thread_time,
    )
    return at_least(
        f"views zeros and rand in torch, {wavelet}, level {level}",
        pywavelets / referee,
        "PyWavelets, one channel at a time",
        1,
        f"{COUNT / referee:.0f} against {COUNT / pywavelets:.0f} images/s",
    )


def rows(quick: bool) -> list[Row]:
    """Measure crops, and views with several wavelets and levels."""
    torch.set_num_threads(1)
    cases = (CASES[0], CASES[2]) if quick else CASES
    return [crops(10 if quick else 40), *(views(*case, rounds=3 if quick else 8) for case in cases)]
