"""The class set of each task, as class numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pipeline.datasets.manifest_files import ClassRow


def task_classes(classes: Sequence[ClassRow]) -> list[npt.NDArray[np.intp]]:
    """Return for each task the numbers (|C|,) of its classes."""
    tasks = np.array([row.task for row in classes])
    return [np.flatnonzero(tasks == task) for task in range(int(tasks.max()) + 1)]
