"""Compute statistics by torch, with features and scatter on one device, a GPU or the CPU.

Embeddings are copied to the device and D×D sums back; features, which are eight times as large, never leave it. As in
`add_product`, products are float32 (without TensorFloat-32) and sums float64; only the order of summation differs.
"""

import numpy as np
import torch

from pipeline.method.class_statistics import ClassStatistics, class_shares
from pipeline.method.random_fourier_features import Basis
from pipeline.method.rows import BLOCK_IMAGES, LabelledRows, row_blocks, unit_rows


def statistics_on(device: str, basis: Basis, rows: LabelledRows, C: int) -> ClassStatistics:
    """Return the statistics of labelled rows, like `task_statistics.sum_rows`."""
    torch.backends.cuda.matmul.allow_tf32 = False  # which rounds products to a mantissa of ten bits
    frequencies = torch.from_numpy(np.ascontiguousarray(basis.omega)).to(device)
    beta = torch.from_numpy(np.ascontiguousarray(basis.beta)).to(device)
    directions = None if basis.directions is None else torch.from_numpy(basis.directions.Q).to(device)
    scatter = torch.zeros(basis.width, basis.width, dtype=torch.float64, device=device)
    sums = torch.zeros(C, basis.width, dtype=torch.float64, device=device)
    count, weight, squared = np.zeros(C), np.zeros(C), np.zeros(C)
    for index in row_blocks(len(rows), BLOCK_IMAGES):
        part = rows.take(index)
        present, present_shares = class_shares(part.labels)
        omega, shares = part.weights, np.zeros((len(part), C))
        shares[:, present] = present_shares
        weighted = omega[:, None] * shares
        selection = torch.from_numpy(weighted.T.astype(np.float32)).to(device)
        root = torch.from_numpy(np.sqrt(omega).astype(np.float32)).to(device)[:, None]
        for view in rows.views.values():
            # z(x) − z(0) of eq. (7), as in `random_fourier_features.deviations`
            unit = torch.from_numpy(unit_rows(view[index]).astype(np.float32)).to(device)
            half = (unit @ frequencies).mul_(0.5)
            shifted = (half + beta).sin_()
            features = half.sin_().mul_(shifted).mul_(-2 * basis.scale)
            features = features if directions is None else features @ directions
            sums += selection @ features
            features *= root
            scatter += features.T @ features
            count += shares.sum(axis=0)
            weight += weighted.sum(axis=0)
            squared += (weighted**2).sum(axis=0)
    return ClassStatistics(
        count=count,
        weight=weight,
        squared_weight=squared,
        sums=sums.cpu().numpy(),
        scatter=scatter.cpu().numpy().T,  # symmetric: its transpose is the same matrix in Fortran order
    )
