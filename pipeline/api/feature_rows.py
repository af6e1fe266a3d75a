"""The features of a domain's images, read on demand, with their paths, labels, tasks and splits."""

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
    """The features (n, d) that a model computed for a domain's images, read on demand; see `FeatureCache.rows`.

    Indexing with a number, a slice, row numbers or a mask reads only the selected rows, as float32 even if they are
    stored as float16. Small views are kept in memory; large ones are read from the store every time.

    Attributes
    ----------
    domain, model, view : str
        The domain, model and view that the features belong to.
    """

    def __init__(
        self, domain: LabelledDomain, model: str, view: str, index: npt.NDArray[np.intp] | None = None
    ) -> None:
        self.domain, self.model, self.view = domain.name, model, view
        self._labelled_domain = domain
        self._rows = domain.vision_rows(view)
        self._index = np.arange(len(self._rows)) if index is None else index

    def __len__(self) -> int:
        return len(self._index)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (n, d)."""
        return len(self), int(self._rows.shape[1])

    def __getitem__(self, key: Any) -> Floats:
        numbers = self._index[key]
        ascending, inverse = np.unique(numbers, return_inverse=True)
        return np.asarray(self._rows[ascending], dtype=np.float32)[inverse]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

    def take(self, index: Any) -> FeatureRows:
        """Select rows without reading them.

        Parameters
        ----------
        index : slice, ndarray of int of shape (m,) or ndarray of bool of shape (n,)
            The rows to select, as in NumPy.

        Returns
        -------
        FeatureRows
            The selected rows, of shape (m, d).
        """
        return FeatureRows(self._labelled_domain, self.model, self.view, self._index[index])

    def in_view(self, view: str) -> FeatureRows:
        """Return the features of the same images in another view.

        Parameters
        ----------
        view : str
            A view in the store, such as ``zeros``.

        Returns
        -------
        FeatureRows
            Of shape (n, d).
        """
        return FeatureRows(self._labelled_domain, self.model, view, self._index)

    def numpy(self) -> Floats:
        """Read all rows into an array (n, d)."""
        return self[:]

    def torch(self) -> torch.Tensor:
        """Read all rows into a tensor (n, d)."""
        import torch

        return torch.from_numpy(self[:])

    @property
    def paths(self) -> list[str]:
        """The path of each image, as in the manifest."""
        paths = self._labelled_domain.image_paths
        return [paths[number] for number in self._index]

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """The class (n,) of each image, as a position in `classes`."""
        return self._labelled_domain.labels[self._index]

    @property
    def classes(self) -> list[str]:
        """The names of the classes, in order of arrival."""
        return self._labelled_domain.class_names

    @property
    def task(self) -> npt.NDArray[np.int64]:
        """The task (n,) in which each image arrives, counted from 1."""
        return self._labelled_domain.tasks.task[self._index] + 1

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds for which the images are split."""
        return tuple(self._labelled_domain.seeds)

    @property
    def provenance(self) -> Mapping[str, Any]:
        """How the rows were computed: model, weights, preprocessing, precision."""
        return self._labelled_domain.vision.provenance

    def split(self, seed: int) -> tuple[FeatureRows, FeatureRows]:
        """Split the rows into the train and test images of a seed, as for all results.

        Parameters
        ----------
        seed : int
            One of `seeds`.

        Returns
        -------
        train, test : FeatureRows
        """
        if seed not in self.seeds:
            raise ParamsError(f"seed {seed}: {self.domain} is only split for the seeds {listed(self.seeds)}")
        test = self._labelled_domain.tasks.test_mask(seed)[self._index]
        return self.take(~test), self.take(test)

    def __repr__(self) -> str:
        n, d = self.shape
        return f"<FeatureRows {self.domain} {self.model} {self.view}: {n} rows of {d} numbers>"
