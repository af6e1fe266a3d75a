"""Does this processor really compute in half precision? Asked in a process of its own, because a wrong answer kills it.

Some virtual machines announce instructions (AMX) that they cannot execute. oneDNN believes them, and a first product in
bfloat16 ends the process with an illegal instruction: no exception, no message, a stage that is simply gone.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache

from pipeline.errors import ModelError

PROBE = """
import torch
layer = torch.nn.Linear(128, 128)
with torch.inference_mode(), torch.autocast("cpu", dtype=torch.{precision}):
    layer(torch.zeros(64, 128))
"""


@cache
def check_on_cpu(precision: str) -> None:
    """Raise a `ModelError` with the remedy if a product in ``precision`` kills its process."""
    probe = [sys.executable, "-c", PROBE.format(precision=precision)]
    ended = subprocess.run(probe, capture_output=True, check=False).returncode  # noqa: S603  our own text
    if ended < 0:
        raise ModelError(
            f"precision {precision!r}: this processor announces instructions that it cannot execute (signal {-ended}); "
            "use precision: float32, or set ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 in the environment"
        )
