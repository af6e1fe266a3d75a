"""The compiled part of the package, and it is optional; everything else is in pyproject.toml."""

import hashlib
from pathlib import Path

from setuptools import Extension, setup

FOLDER = Path("pipeline/encoders")
SOURCES = ("haar_views.c", "processors.h", "resample.c")  # as native.py digests them
DIGEST = hashlib.sha256(b"".join((FOLDER / name).read_bytes() for name in SOURCES)).hexdigest()

setup(
    ext_modules=[
        Extension(
            "pipeline.encoders._native",
            [str(FOLDER / name) for name in SOURCES if name.endswith(".c")],
            depends=[str(FOLDER / name) for name in SOURCES],
            define_macros=[("REFEREE_SOURCE", f'"{DIGEST}"')],
            # No fused multiply-adds: the same bits as torch, which rounds after every operation.
            extra_compile_args=["-O3", "-ffp-contract=off"],
            optional=True,  # without a compiler the package works as well, and gives the same bits
        )
    ]
)
