"""One thread, as the pipeline runs its encoders on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from pipeline.encoders.torchvision_ops import ensure_torchvision_ops

ensure_torchvision_ops()  # before any test module imports timm or open_clip


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
