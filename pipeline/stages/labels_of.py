"""A domain's labels, and the digest of the rows they belong to, read line by line: a million rows take 8 MB."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.datasets.manifest_files import iterate_images, iterate_labels
from pipeline.store.embedding_store import rows_digest


def read_truth(folder: Path) -> tuple[npt.NDArray[np.int64], str]:
    """Return the labels (n,) of the manifest in ``folder`` and the `rows_digest` of its images."""
    digest = rows_digest(image.sha256 for image in iterate_images(folder / "images.csv"))
    images = iterate_images(folder / "images.csv")
    labels = iterate_labels(folder / "labels.csv", images=images)
    return np.fromiter((row.label for row in labels), dtype=np.int64), digest
