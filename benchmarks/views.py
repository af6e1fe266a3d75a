"""Speed of the frequency-aware views: ours in one batch against PyWavelets channel by channel.

Run `python benchmarks/views.py`; prints images/s of both sides, and the ratio, on one thread.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from pipeline.method.frequency_views import ViewSettings, frequency_views  # noqa: E402
from reference.frequency_views import standard_noise, views  # noqa: E402

COUNT, SIZE, ROUNDS = 64, (224, 224), 5


def seconds(work: Callable[[], object]) -> float:
    """Time one run of ``work``."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(wavelet: str, level: int) -> str:
    """Make `zeros` and `rand` of the same images both ways, in turns; report the best of each."""
    images = torch.from_numpy(np.random.default_rng(0).random((COUNT, 3, *SIZE), np.float32))
    keys = [hashlib.sha256(bytes([i])).digest() for i in range(COUNT)]
    settings = ViewSettings(wavelet, level)

    def batched() -> object:
        return frequency_views(images, ("zeros", "rand"), settings, keys)

    def naive() -> object:
        generators = [np.random.default_rng(i) for i in range(COUNT)]
        noise = [standard_noise(g, 3, SIZE, wavelet, level) for g in generators]
        return views(images.numpy(), wavelet, level, "matched", noise)

    times = [(seconds(batched), seconds(naive)) for _ in range(ROUNDS)]
    ours, theirs = (COUNT / min(column) for column in zip(*times, strict=True))
    return (
        f"{wavelet} level {level}: {ours:.0f} against {theirs:.0f} images/s, {ours / theirs:.1f}×"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    for case in (("haar", 1), ("haar", 3), ("db4", 1), ("sym8", 2)):
        print(compare(*case))
