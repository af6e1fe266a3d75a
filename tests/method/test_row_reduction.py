"""Ranges of rows, and work on rows by torch, which gives what BLAS gives. A GPU runs what the CPU runs here.

That ranges summed by other processes give the same is in tests/pipeline_runs/test_statistics_on_cluster.py.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains, adapted_to
from pipeline.extraction import device_statistics
from pipeline.extraction.executor import reduce_on_device
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.rows import BLOCK_IMAGES, LabelledRows, reduce_here, row_ranges
from pipeline.method.task_statistics import sum_rows
from pipeline.method.variants import VARIANTS


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [1, BLOCK_IMAGES, BLOCK_IMAGES + 1, 5 * BLOCK_IMAGES + 3])
def test_ranges_are_whole_blocks_and_hold_every_row_once(n, count):
    ranges = row_ranges(n, count)
    assert np.array_equal(np.concatenate(ranges), np.arange(n))
    assert len(ranges) == min(count, -(-n // BLOCK_IMAGES))
    assert all(len(part) % BLOCK_IMAGES == 0 for part in ranges[:-1])
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 2 * BLOCK_IMAGES


ON_CPU = partial(reduce_on_device, "cpu")


@pytest.mark.parametrize("soft", [False, True])
def test_statistics_by_torch_are_those_by_blas(monkeypatch, soft):
    monkeypatch.setattr(device_statistics, "BLOCK_IMAGES", 9)
    rng = np.random.default_rng(0)
    basis = draw_basis(6, 20, 1e-2, "gamma", 0)
    views = {"original": rng.normal(size=(31, 6)), "zeros": rng.normal(size=(31, 6))}
    labels = rng.dirichlet(np.ones(3), 31) if soft else rng.integers(0, 3, 31)
    rows = LabelledRows(views, labels, rng.uniform(0, 1, 31))
    found = sum_rows(basis, rows, 4, "float32", ON_CPU)
    expected = sum_rows(basis, rows, 4, "float64")
    mine = found.to_arrays()
    for name, theirs in expected.to_arrays().items():
        np.testing.assert_allclose(mine[name], theirs, rtol=1e-5, atol=1e-7 * np.abs(theirs).max(), err_msg=name)
    assert found.scatter.flags.f_contiguous


def test_float64_statistics_stay_off_the_device():
    domains = ShiftedDomains(1)
    basis = draw_basis(domains.x.shape[1], 20, 1e-2, "gamma", 0)
    rows = LabelledRows({"original": domains.x}, domains.y, np.ones(len(domains.y)))
    expected = sum_rows(basis, rows, 7, "float64").to_arrays()
    for name, found in sum_rows(basis, rows, 7, "float64", ON_CPU).to_arrays().items():
        np.testing.assert_array_equal(found, expected[name])


def test_a_whole_problem_is_the_same_on_a_device():
    seed, options = ShiftedDomains(0).build(D=40), replace(VARIANTS["calibrated"], clip_in_kernel=0.0)
    on_device, here = (adapted_to(seed, options, reduce_rows=by) for by in (ON_CPU, reduce_here))
    for mine, theirs in zip(on_device, here, strict=True):
        np.testing.assert_array_equal(mine.labels.label, theirs.labels.label)
        np.testing.assert_allclose(mine.classifier.b, theirs.classifier.b, rtol=1e-3)
