"""Which device runs the encoders, and at which precision it can."""

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
    """Return the device called auto (a GPU if there is one), cpu, cuda, cuda:N or mps; an absent one is refused."""
    if name == "auto":
        metal = torch.backends.mps.is_available()
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if metal else "cpu")
    kind, _, index = name.partition(":")
    if kind == "cuda":
        _check_cuda(name, int(index or 0))
    if kind == "mps" and not torch.backends.mps.is_available():
        raise ModelError("device 'mps': this machine or this build of torch has no Metal GPU; use auto or cpu")
    return torch.device(name)


def describe_device(device: torch.device) -> str:
    """Return a device's name and its memory or threads, for people."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        return f"{device} ({properties.name}, {properties.total_memory / GIGABYTE:.1f} GB)"
    if device.type == "mps":
        memory = torch.mps.recommended_max_memory() / GIGABYTE
        return f"mps (Apple GPU, {memory:.1f} GB)"
    return f"cpu ({counted(torch.get_num_threads(), 'thread')})"


def fast_precision(device: torch.device) -> str:
    """Return what ``precision: auto`` means on a device: float16 where tensor cores have it, else float32.

    bfloat16 is as fast and moves rows more: cosines to float32 of EfficientNet-lite0 on photos, autocast on the CPU,
    are at least 0.9947 with bfloat16 and 0.99997 with float16. A model that overflows float16 ends with an error.

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
    """Raise a `ModelError` with the remedy if a product in half precision kills its process: asked in one of its own.

    Some virtual machines announce instructions (AMX) that they cannot execute. oneDNN believes them, and a first
    product in bfloat16 ends the process with an illegal instruction: no exception, no message.
    """
    probe = [sys.executable, "-c", PROBE.format(precision=precision)]
    ended = subprocess.run(probe, capture_output=True, check=False).returncode  # noqa: S603  our own text
    if ended < 0:
        raise ModelError(
            f"precision {precision!r}: this processor announces instructions that it cannot execute (signal {-ended}); "
            "use precision: float32, or set ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 in the environment"
        )


def _check_cuda(name: str, index: int) -> None:
    if not torch.cuda.is_available():
        why = "this build of torch has no CUDA" if torch.version.cuda is None else "no NVIDIA GPU is visible"
        raise ModelError(f"device {name!r}: {why}; use auto or cpu, or install a CUDA build of torch")
    count = torch.cuda.device_count()
    if index >= count:
        raise ModelError(f"device {name!r}: there are {count} CUDA devices, cuda:0 to cuda:{count - 1}")
