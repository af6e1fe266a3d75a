"""A task's statistics by torch, features and scatter both on one device: for a GPU, and the same code on the CPU.

Embeddings go to the device, D×D sums come back; features, which are eight times as large, never leave it. float32
products with TensorFloat-32 off, float64 sums, as in `scatter_products`: equal to it but for the order of summation.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import torch

from pipeline.method.class_statistics import ClassStatistics, Labels, Vector64
from pipeline.method.random_fourier_features import Basis
from pipeline.method.zero_shot import Matrix, unit_rows

Block = tuple[Matrix, Labels, Vector64]


def statistics_on(device: str, basis: Basis, blocks: Iterable[Block], C: int) -> ClassStatistics:
    """Return the statistics of blocks of embeddings (b, d), labels (b,) in [0, C) and weights (b,)."""
    torch.backends.cuda.matmul.allow_tf32 = False  # its products have ten bits
    mapped = _Map(device, basis)
    scatter = torch.zeros(basis.D, basis.D, dtype=torch.float64, device=device)
    sums = torch.zeros(C, basis.D, dtype=torch.float64, device=device)
    count, weight, squared = np.zeros(C), np.zeros(C), np.zeros(C)
    for x, labels, omega in blocks:
        rows = mapped.deviation(x)
        one_hot = np.zeros((C, len(labels)), dtype=np.float32)
        one_hot[labels, np.arange(len(labels))] = omega
        sums += torch.from_numpy(one_hot).to(device) @ rows
        rows *= torch.from_numpy(np.sqrt(omega).astype(np.float32)).to(device)[:, None]
        scatter += rows.T @ rows
        count += np.bincount(labels, minlength=C)
        weight += np.bincount(labels, omega, minlength=C)
        squared += np.bincount(labels, omega**2, minlength=C)
    # symmetric, so that the transpose is the same matrix in Fortran order
    return ClassStatistics(count, weight, squared, _numbers(sums), _numbers(scatter).T)


class _Map:
    """z(x) − z(0) of eq. (7) on a device, as `random_fourier_features.deviation` has it."""

    def __init__(self, device: str, basis: Basis) -> None:
        self.basis = basis
        self.device = device
        self.omega = torch.from_numpy(np.ascontiguousarray(basis.omega)).to(device)
        self.beta = torch.from_numpy(np.ascontiguousarray(basis.beta)).to(device)

    def deviation(self, x: Matrix) -> torch.Tensor:
        """Return (b, D) float32 of L2-normalised rows (b, d)."""
        unit = torch.from_numpy(unit_rows(x).astype(np.float32)).to(self.device)
        half = (unit @ self.omega).mul_(0.5)
        shifted = (half + self.beta).sin_()
        return half.sin_().mul_(shifted).mul_(-2 * self.basis.scale)


def _numbers(tensor: torch.Tensor) -> npt.NDArray[np.float64]:
    return np.asarray(tensor.cpu().numpy(), dtype=np.float64)
