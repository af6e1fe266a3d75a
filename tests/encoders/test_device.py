"""Devices that are there and devices that are not."""

from __future__ import annotations

import pytest
import torch

from pipeline.encoders.device import choose_device, describe_device
from pipeline.errors import ModelError


def test_cpu_and_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto") == choose_device("mps") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto").type == "cuda"
    assert "threads" in describe_device(torch.device("cpu"))


def test_absent_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ModelError, match=r"device 'cuda:1': .*use auto or cpu"):
        choose_device("cuda:1")
    with pytest.raises(ModelError, match="device 'mps'"):
        choose_device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(ModelError, match="there are 2 CUDA devices"):
        choose_device("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cpu:0:1", "", "cuda:-1", "mps:3"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(ModelError, match="expected auto, cpu, cuda, cuda:N or mps"):
        choose_device(name)
