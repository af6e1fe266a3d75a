"""Cached features as a torch dataset."""

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.data import Dataset

from pipeline.method.rows import Labels, Rows

Item = tuple[torch.Tensor, int]


class RowDataset(Dataset[Item]):
    """Pairs of a float32 row (d,) and its label; a `DataLoader` reads all rows of a batch at once."""

    def __init__(self, rows: Rows, labels: Labels) -> None:
        self.rows, self.labels = rows, labels

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Item:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Item]:
        """Return several pairs, reading the store only once."""
        numbers = np.asarray(indices)
        rows = torch.from_numpy(self.rows[numbers])
        return list(zip(rows, self.labels[numbers].tolist(), strict=True))
