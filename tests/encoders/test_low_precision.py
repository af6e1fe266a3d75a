"""A processor that cannot do what it announces kills a child of ours, never us."""

import os
import signal

import pytest

from pipeline.encoders import low_precision
from pipeline.errors import ModelError


@pytest.fixture(autouse=True)
def _asked_anew():
    low_precision.check_on_cpu.cache_clear()
    yield
    low_precision.check_on_cpu.cache_clear()


def test_a_deadly_precision_is_one_line_with_the_remedy(monkeypatch):
    deadly = f"import os; os.kill(os.getpid(), {int(signal.SIGILL)})"
    monkeypatch.setattr(low_precision, "PROBE", deadly)
    with pytest.raises(
        ModelError, match=r"'bfloat16'.*signal 4.*use precision: float32, or set ONEDNN_MAX_CPU_ISA"
    ):
        low_precision.check_on_cpu("bfloat16")


def test_the_remedy_works_here(monkeypatch):
    monkeypatch.setitem(os.environ, "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
    low_precision.check_on_cpu("bfloat16")


def test_a_probe_that_lives_says_nothing(monkeypatch):
    monkeypatch.setattr(low_precision, "PROBE", "{precision!r}; raise SystemExit(1)")
    low_precision.check_on_cpu("float16")  # an ordinary error will come with its own message
