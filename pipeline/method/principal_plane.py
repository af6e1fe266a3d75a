"""Map high-dimensional rows to a plane, by their first two principal components.

Unlike t-SNE or UMAP, the map is a projection, so no distance on it is larger than the real one. It needs no random
start and no iteration, is reproducible to the decimals that are kept, and takes milliseconds for a thousand rows.
"""

import numpy as np
import numpy.typing as npt

from pipeline.method.rows import Matrix64


def principal_plane(x: npt.NDArray[np.floating]) -> Matrix64:
    """Return the coordinates (n, 2) of rows (n, d) on their principal plane.

    The largest component of each axis is positive, so that the map is never mirrored. Directions without variance
    (fewer than three rows, constant rows) have coordinates 0.
    """
    centred = x.astype(np.float64) - x.mean(axis=0, dtype=np.float64)
    _, scale, axes = np.linalg.svd(centred, full_matrices=False)
    flat = np.zeros((len(x), 2))
    if scale.any():
        for i, axis in enumerate(axes[:2]):
            flat[:, i] = centred @ (axis * np.sign(axis[np.abs(axis).argmax()]))
    return flat


def evenly_spaced(rows: npt.NDArray[np.intp], limit: int) -> npt.NDArray[np.intp]:
    """Return at most ``limit`` of the rows, evenly spaced; if sorted by class, each class keeps its proportion."""
    if len(rows) <= limit:
        return rows
    return rows[np.linspace(0, len(rows) - 1, limit).round().astype(np.intp)]
