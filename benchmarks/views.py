"""The views by torch against PyWavelets channel by channel. One thread, CPU time."""

from __future__ import annotations

import hashlib
import time

import numpy as np
import pywt
import torch

from benchmarks.row import Row, at_least
from benchmarks.timing import best_in_turns
from pipeline.method.frequency_views import ViewSettings, frequency_views

COUNT, SIZE = 16, (224, 224)
CASES = (("haar", 1), ("haar", 3), ("db4", 1), ("sym8", 2))


def by_pywavelets(images: np.ndarray, wavelet: str, level: int, rng: np.random.Generator) -> None:
    """Make `zeros` and `rand` of images (n, 3, h, w), matched noise, one channel at a time."""
    for image in images:
        for channel in image:
            low, *details = pywt.wavedec2(channel, wavelet, level=level)
            blank = [tuple(np.zeros_like(band) for band in bands) for bands in details]
            noisy = [
                tuple(rng.normal(0, band.std(), band.shape).astype(np.float32) for band in bands) for bands in details
            ]
            for replaced in (blank, noisy):
                np.clip(pywt.waverec2([low, *replaced], wavelet), 0, 1)


def compare(wavelet: str, level: int, rounds: int) -> Row:
    """Make both views of the same images both ways."""
    rng = np.random.default_rng(0)
    images = rng.random((COUNT, 3, *SIZE), np.float32)
    keys = [hashlib.sha256(bytes([i])).digest() for i in range(COUNT)]
    settings, tensor = ViewSettings(wavelet, level), torch.from_numpy(images)
    ours, theirs = best_in_turns(
        lambda: frequency_views(tensor, ("zeros", "rand"), settings, keys),
        lambda: by_pywavelets(images, wavelet, level, rng),
        rounds=rounds,
        clock=time.thread_time,
    )
    return at_least(
        f"views zeros and rand in torch, {wavelet}, level {level}",
        theirs / ours,
        "PyWavelets, one channel at a time",
        1,
        f"{COUNT / ours:.0f} against {COUNT / theirs:.0f} images/s",
    )


def rows(quick: bool) -> list[Row]:
    """Measure a few wavelets and levels."""
    torch.set_num_threads(1)
    cases = (CASES[0], CASES[2]) if quick else CASES
    return [compare(*case, rounds=3 if quick else 8) for case in cases]
