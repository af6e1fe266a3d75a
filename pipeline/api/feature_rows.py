"""The rows of a domain by a model in Python, with their paths, labels, tasks and splits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pipeline.errors import ParamsError, listed
from pipeline.problem.domain import LabelledDomain

if TYPE_CHECKING:
    import torch

Floats = npt.NDArray[np.float32]


class FeatureRows:
    """The features (n, d) of a domain's images by a model, read when they are asked for; `FeatureCache.rows`.

    Indexing with a number, a slice, row numbers or a mask reads these rows and no others, as float32 (what is stored
    may be float16). Small views are kept in memory, large ones are read again from the store.

    Attributes
    ----------
    domain, model, view : str
        Whose features these are.
    """

    def __init__(
        self, opened: LabelledDomain, model: str, view: str, index: npt.NDArray[np.intp] | None = None
    ) -> None:
        self.domain, self.model, self.view = opened.name, model, view
        self._opened = opened
        self._rows = opened.vision_rows(view)
        self._index = np.arange(len(self._rows)) if index is None else index

    def __len__(self) -> int:
        return len(self._index)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (n, d)."""
        return len(self), int(self._rows.shape[1])

    def __getitem__(self, key: Any) -> Floats:
        numbers = self._index[key]
        ascending, back = np.unique(numbers, return_inverse=True)
        return np.asarray(self._rows[ascending], dtype=np.float32)[back]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

    def take(self, index: Any) -> FeatureRows:
        """Return some of the rows without reading them.

        Parameters
        ----------
        index : slice, ndarray of int of shape (m,) or ndarray of bool of shape (n,)
            Which rows, as in NumPy.

        Returns
        -------
        FeatureRows
            Of shape (m, d).
        """
        return FeatureRows(self._opened, self.model, self.view, self._index[index])

    def in_view(self, view: str) -> FeatureRows:
        """Return the rows of the same images in another view.

        Parameters
        ----------
        view : str
            A view that the store has, such as ``zeros``.

        Returns
        -------
        FeatureRows
            Of shape (n, d).
        """
        return FeatureRows(self._opened, self.model, view, self._index)

    def numpy(self) -> Floats:
        """Return all rows (n, d) as an array."""
        return self[:]

    def torch(self) -> torch.Tensor:
        """Return all rows (n, d) as a tensor."""
        import torch

        return torch.from_numpy(self[:])

    @property
    def paths(self) -> list[str]:
        """The path of each image, as the manifest has it."""
        images = self._opened.image_paths
        return [images[number] for number in self._index]

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """The class (n,) of each image, a position in `classes`."""
        return self._opened.labels[self._index]

    @property
    def classes(self) -> list[str]:
        """The names of the classes, in order of arrival."""
        return self._opened.class_names

    @property
    def task(self) -> npt.NDArray[np.int64]:
        """The task (n,) that brings each image, counted from 1."""
        return self._opened.tasks.task[self._index] + 1

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds under which images are split."""
        return tuple(self._opened.seeds)

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What made the rows: model, weights, preprocessing, precision."""
        return self._opened.vision.provenance

    def split(self, seed: int) -> tuple[FeatureRows, FeatureRows]:
        """Return the train rows and the test rows of a seed, the split of all results.

        Parameters
        ----------
        seed : int
            One of `seeds`.

        Returns
        -------
        train, test : FeatureRows
        """
        if seed not in self.seeds:
            raise ParamsError(f"seed {seed}: {self.domain} was split for {listed(self.seeds)}")
        test = self._opened.tasks.is_test(seed)[self._index]
        return self.take(~test), self.take(test)

    def __repr__(self) -> str:
        n, d = self.shape
        return f"<FeatureRows {self.domain} {self.model} {self.view}: {n} rows of {d} numbers>"
