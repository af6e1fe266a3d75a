"""Run torch with one thread, as the pipeline does on the CPU."""

import pytest
import torch

from pipeline.encoders.torchvision_ops import ensure_torchvision_ops

ensure_torchvision_ops()  # before any test module imports timm or open_clip


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
