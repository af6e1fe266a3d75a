"""Write a domain's features as one file for other programs.

Rows of one view as float32, each with the path and the class of its image,
for numpy (.npz), for pandas, Hugging Face datasets, autofaiss and
embedding-reader (.parquet), or for torch and others (.safetensors). Of a domain
in `data.private`, paths and labels stay here: the file has rows only.

reads:  params.yaml, suite.yaml, and of cache/: manifests/DOMAIN,
        embeddings/DOMAIN/MODEL.zarr; no image, no weights
writes: FILE, whole or not at all; the same features give the same bytes
examples:
  referee export-features mnist vit --format parquet
  referee export-features mnist clip --view zeros -o clip.safetensors
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pipeline.cli.predict import open_here
from pipeline.errors import InputError
