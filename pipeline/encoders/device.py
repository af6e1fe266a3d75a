"""Choose the device and the precision of the encoders."""

import subprocess
import sys
from functools import cache

import torch

from pipeline.errors import ModelError, counted

GIGABYTE = 1e9
PROBE = """
import torch
layer = torch.nn.Linear(128, 128)
with torch.inference_mode(), torch.autocast("cpu", dtype=torch.{precision}):
    layer(torch.zeros(64, 128))
"""


def choose_device(name: str) -> torch.device:
    """Return the device named auto (a GPU if available), cpu, cuda, cuda:N or mps; raise ModelError if it is absent."""
    if name == "auto":
        has_metal = torch.backends.mps.is_available()
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if has_metal else "cpu")
    kind, _, index = name.partition(":")
    if kind == "cuda":
        _check_cuda(name, int(index or 0))
    if kind == "mps" and not torch.backends.mps.is_available():
        raise ModelError("device 'mps': this machine or this build of torch has no Metal GPU; use auto or cpu")
    return torch.device(name)


def describe_device(device: torch.device) -> str:
    """Return a device's name and its memory or threads for display."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        return f"{device} ({properties.name}, {properties.total_memory / GIGABYTE:.1f} GB)"
    if device.type == "mps":
        memory = torch.mps.recommended_max_memory() / GIGABYTE
        return f"mps (Apple GPU, {memory:.1f} GB)"
    return f"cpu ({counted(torch.get_num_threads(), 'thread')})"


def fast_precision(device: torch.device) -> str:
    """Return the precision chosen by ``precision: auto``: float16 if tensor cores support it, else float32.

    bfloat16 is as fast but less accurate. Cosines to float32 embeddings (EfficientNet-lite0 on photos, autocast on the
    CPU) are at least 0.9947 with bfloat16 and 0.99997 with float16. A model that overflows float16 ends with an error.

    Examples
    --------
    >>> fast_precision(torch.device("cpu"))
    'float32'
    """
    if device.type != "cuda":
        return "float32"
    return "float16" if torch.cuda.get_device_capability(device) >= (7, 0) else "float32"


@cache
def check_on_cpu(precision: str) -> None:
    """Raise ModelError if a half-precision product kills the process; it is tried in a subprocess.

    Some virtual machines announce instructions (AMX) that they cannot execute. oneDNN relies on them, and the first
    product in bfloat16 then ends the process with an illegal instruction, without exception or message.
    """
    probe = [sys.executable, "-c", PROBE.format(precision=precision)]
    code = subprocess.run(probe, capture_output=True, check=False).returncode  # noqa: S603
    if code < 0:
        raise ModelError(
            f"precision {precision!r}: this processor announces instructions that it cannot execute (signal {-code}); "
            "use precision: float32, or set ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 in the environment"
        )


def _check_cuda(name: str, index: int) -> None:
    if not torch.cuda.is_available():
        reason = "this build of torch has no CUDA" if torch.version.cuda is None else "no NVIDIA GPU is visible"
        raise ModelError(f"device {name!r}: {reason}; use auto or cpu, or install a CUDA build of torch")
    count = torch.cuda.device_count()
    if index >= count:
        raise ModelError(f"device {name!r}: there are {count} CUDA devices, cuda:0 to cuda:{count - 1}")
