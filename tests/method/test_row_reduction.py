"""Ranges of rows, and reductions by torch, which give the results of BLAS; a GPU runs the code that the CPU runs here.

Sums by other processes are tested in tests/pipeline_runs/test_statistics_on_cluster.py.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains, adapted_to
from pipeline.extraction import device_statistics
from pipeline.extraction.executor import reduce_on_device
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.rows import BLOCK_IMAGES, LabelledRows, reduce_locally, row_ranges
from pipeline.method.task_statistics import sum_rows
from pipeline.method.variants import VARIANTS


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [1, BLOCK_IMAGES, BLOCK_IMAGES + 1, 5 * BLOCK_IMAGES + 3])
def test_ranges_are_whole_blocks_and_contain_every_row_once(n, count):
    ranges = row_ranges(n, count)
    assert np.array_equal(np.concatenate(ranges), np.arange(n))
    assert len(ranges) == min(count, -(-n // BLOCK_IMAGES))
    assert all(len(part) % BLOCK_IMAGES == 0 for part in ranges[:-1])
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 2 * BLOCK_IMAGES


ON_CPU = partial(reduce_on_device, "cpu")


@pytest.mark.parametrize("soft", [False, True])
def test_statistics_by_torch_equal_those_by_numpy(monkeypatch, soft):
    monkeypatch.setattr(device_statistics, "BLOCK_IMAGES", 9)
    rng = np.random.default_rng(0)
    basis = draw_basis(6, 20, 1e-2, "gamma", 0)
    views = {"original": rng.normal(size=(31, 6)), "zeros": rng.normal(size=(31, 6))}
    labels = rng.dirichlet(np.ones(3), 31) if soft else rng.integers(0, 3, 31)
    rows = LabelledRows(views, labels, rng.uniform(0, 1, 31))
    found = sum_rows(basis, rows, 4, "float32", ON_CPU)
    arrays = found.to_arrays()
    for name, expected in sum_rows(basis, rows, 4, "float64").to_arrays().items():
        atol = 1e-7 * np.abs(expected).max()
        np.testing.assert_allclose(arrays[name], expected, rtol=1e-5, atol=atol, err_msg=name)
    assert found.scatter.flags.f_contiguous


def test_float64_statistics_are_not_computed_on_the_device():
    domains = ShiftedDomains(1)
    basis = draw_basis(domains.x.shape[1], 20, 1e-2, "gamma", 0)
    rows = LabelledRows({"original": domains.x}, domains.y, np.ones(len(domains.y)))
    expected = sum_rows(basis, rows, 7, "float64").to_arrays()
    for name, found in sum_rows(basis, rows, 7, "float64", ON_CPU).to_arrays().items():
        np.testing.assert_array_equal(found, expected[name])


def test_adaptation_gives_the_same_labels_on_a_device():
    seed, options = ShiftedDomains(0).build(D=40), replace(VARIANTS["calibrated"], clip_in_kernel=0.0)
    by_torch, by_numpy = (adapted_to(seed, options, reduce_rows=reduction) for reduction in (ON_CPU, reduce_locally))
    for found, expected in zip(by_torch, by_numpy, strict=True):
        np.testing.assert_array_equal(found.labels.label, expected.labels.label)
        np.testing.assert_allclose(found.classifier.b, expected.classifier.b, rtol=1e-3)
