"""The random Fourier bases of a source domain, one per seed, as recipes from which they are drawn."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pipeline.method.random_fourier_features import MEDIAN_ROWS, Convention, median_bandwidth
from pipeline.method.rows import Rows, take
from pipeline.problem.domain import Domain
from pipeline.store.basis_file import BasisRecipe


def basis_recipe(
    source: Domain,
    *,
    D: int,
    sigma: float,
    convention: Convention | Literal["median"],
    orthogonal: bool = False,
) -> BasisRecipe:
    """Return the recipe of every seed's basis.

    Parameters
    ----------
    source : Domain
        Its embeddings give the widths and, under ``median``, its train rows the bandwidth. The target is never
        looked at: a basis is fixed before the first target task.
    D : int
        Number of Fourier features.
    sigma : float
        Of the kernel, in the meaning that ``convention`` gives it; under ``median`` a factor of the median distance
        between two train rows.
    orthogonal : bool, default False
        Draw orthogonal frequencies.
    """
    rows = source.vision_rows("original")
    medians = [1.0] * len(source.seeds)
    if convention == "median":
        medians = [_median(take(rows, source.train_index(seed))) for seed in source.seeds]
    return BasisRecipe(
        d=source.vision.width,
        D=D,
        convention="bandwidth" if convention == "median" else convention,
        orthogonal=orthogonal,
        seeds=tuple(source.seeds),
        sigmas=tuple(sigma * median for median in medians),
        d_clip=source.clip.width,
        asked_convention=convention,
        asked_sigma=sigma,
    )


def _median(rows: Rows) -> float:
    """Return the median distance between evenly spaced rows; no others are read."""
    return median_bandwidth(np.asarray(rows[np.arange(0, len(rows), -(-len(rows) // MEDIAN_ROWS))]))
