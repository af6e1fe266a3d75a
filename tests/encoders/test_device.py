"""Choosing a device and a precision."""

import signal

import pytest
import torch

from pipeline.encoders import device
from pipeline.encoders.device import check_on_cpu, choose_device, describe_device, fast_precision
from pipeline.errors import ModelError


def test_auto_prefers_cuda_then_mps_then_cpu(monkeypatch):
    assert choose_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto") == choose_device("mps") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto").type == "cuda"
    assert "thread" in describe_device(torch.device("cpu"))


@pytest.mark.parametrize(("capability", "expected"), [((9, 0), "float16"), ((6, 1), "float32")])
def test_auto_precision_is_float16_if_it_is_fast(monkeypatch, capability, expected):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert fast_precision(torch.device("cuda")) == expected
    assert fast_precision(torch.device("cpu")) == fast_precision(torch.device("mps")) == "float32"


def test_an_absent_device_is_an_error(monkeypatch):
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


def test_a_precision_that_kills_its_process_is_an_error_with_a_remedy(monkeypatch):
    deadly = f"import os; os.kill(os.getpid(), {int(signal.SIGILL)})"
    check = check_on_cpu.__wrapped__  # without the cache
    with monkeypatch.context() as patch:
        patch.setattr(device, "PROBE", deadly)
        with pytest.raises(ModelError, match=r"'bfloat16'.*signal 4.*float32, or set ONEDNN_MAX"):
            check("bfloat16")
        # an ordinary error is left to the real run
        patch.setattr(device, "PROBE", "{precision!r}; raise SystemExit(1)")
        check("float16")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
    check("bfloat16")  # the remedy works on this machine
