"""Where the statistics are summed: `runtime.statistics`, looked for before any work is done."""

from __future__ import annotations

from dataclasses import replace

from pipeline.method.random_fourier_features import Basis
from pipeline.params import Runtime


def statistics_device(runtime: Runtime) -> str:
    """Return the device of `Basis`: empty for this process's own memory; refuse a GPU that is not there."""
    if runtime.statistics == "cpu":
        return ""  # and torch is not imported
    from pipeline.encoders.device import choose_device

    return str(choose_device(runtime.statistics))


def on_device(basis: Basis, device: str) -> Basis:
    """Return the basis with its statistics made on ``device``."""
    return replace(basis, device=device)
