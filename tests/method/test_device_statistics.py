"""Statistics by torch against those by NumPy and BLAS. A GPU runs the same code; none is needed to test it."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains, adapted_to
from pipeline.method import device_statistics
from pipeline.method.device_statistics import reduce_on
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.rows import LabelledRows, reduce_here
from pipeline.method.task_statistics import sum_rows
from pipeline.method.variants import VARIANTS

ON_CPU = partial(reduce_on, "cpu")


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


def test_a_whole_problem_is_the_same_on_a_device():
    seed, options = ShiftedDomains(0).build(D=40), replace(VARIANTS["calibrated"], clip_in_kernel=0.0)
    on_device, here = (adapted_to(seed, options, reduce_rows=by) for by in (ON_CPU, reduce_here))
    for mine, theirs in zip(on_device, here, strict=True):
        np.testing.assert_array_equal(mine.labels.label, theirs.labels.label)
        np.testing.assert_allclose(mine.classifier.b, theirs.classifier.b, rtol=1e-3)
