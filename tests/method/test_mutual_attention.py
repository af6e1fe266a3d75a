import numpy as np
import torch

from pipeline.extraction.view_refiner import attend, mutual_attention
from reference import mutual_attention as oracle


def tokens(seed, n=3, length=5, d=4):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((n, length, d), generator=generator, dtype=torch.float64)


def test_both_agree_with_the_oracle():
    original, view, other = tokens(0), tokens(1), tokens(2, length=7)
    for i in range(3):
        np.testing.assert_allclose(attend(original, other)[i], oracle.attend(original[i].tolist(), other[i].tolist()))
        np.testing.assert_allclose(
            mutual_attention(original, view)[i], oracle.mutual(original[i].tolist(), view[i].tolist())
        )


def test_it_is_symmetric_and_moves_with_a_common_permutation():
    original, view = tokens(0), tokens(1)
    order = torch.tensor([3, 0, 4, 1, 2])
    shared = mutual_attention(original, view)
    torch.testing.assert_close(mutual_attention(view, original), shared)
    permuted = mutual_attention(original[:, order], view[:, order])
    torch.testing.assert_close(permuted, shared[:, order])
