"""A flat map of many-dimensional rows: their first two principal components.

Principal components, not t-SNE or UMAP: the map is a projection, so no distance on it is larger than the real one; no
random start, no iteration, the same picture everywhere to the decimals that are kept; milliseconds for a thousand rows.
"""

import numpy as np
import numpy.typing as npt

from pipeline.method.rows import Matrix64


def principal_plane(x: npt.NDArray[np.floating]) -> Matrix64:
    """Return the rows' (n, d) coordinates on their principal plane (n, 2).

    An axis points to where its largest component is positive, so that the map is never mirrored. Directions without
    variance (fewer than three rows, constant rows) have coordinates 0.
    """
    centred = x.astype(np.float64) - x.mean(axis=0, dtype=np.float64)
    _, scale, axes = np.linalg.svd(centred, full_matrices=False)
    flat = np.zeros((len(x), 2))
    if scale.any():
        for i, axis in enumerate(axes[:2]):
            flat[:, i] = centred @ (axis * np.sign(axis[np.abs(axis).argmax()]))
    return flat


def evenly(rows: npt.NDArray[np.intp], most: int) -> npt.NDArray[np.intp]:
    """Return at most ``most`` of the rows, evenly spread over their order: of sorted classes, of each its share."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).round().astype(np.intp)]
