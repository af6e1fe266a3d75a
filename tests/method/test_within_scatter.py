import numpy as np
import pytest

from pipeline.method import within_scatter
from pipeline.method.within_scatter import add_product


def naive(rows, weights):
    total = np.zeros((rows.shape[1],) * 2)
    for r, w in zip(rows.astype(np.float64), weights, strict=True):
        total += w * np.outer(r, r)
    return np.tril(total)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-14)])
@pytest.mark.parametrize(("columns", "rows"), [(512, 2048), (5, 7), (1, 1)])
def test_the_lower_triangle_is_the_sum_of_outer_products(monkeypatch, order, dtype, tolerance, columns, rows):
    monkeypatch.setattr(within_scatter, "COLUMNS", columns)
    monkeypatch.setattr(within_scatter, "ROWS", rows)
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(23, 11)).astype(dtype), rng.uniform(0, 2, 23)
    into = np.asarray(np.ones((11, 11)), order=order)
    add_product(into, x, w)
    expected = naive(x, w)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(np.tril(into - 1), expected, atol=tolerance * scale)


def test_no_rows_add_nothing_and_no_weights_are_ones():
    into = np.zeros((3, 3))
    add_product(into, np.zeros((0, 3), dtype=np.float32))
    assert not into.any()
    rows = np.arange(6.0).reshape(2, 3)
    add_product(into, rows)
    np.testing.assert_array_equal(np.tril(into), np.tril(rows.T @ rows))


def test_blocks_of_float32_are_summed_in_float64(monkeypatch):
    # 2**24 + 1 is no float32: a sum in float32 would lose every row after the first
    monkeypatch.setattr(within_scatter, "ROWS", 1)
    rows = np.ones((101, 1), dtype=np.float32)
    rows[0] = 2.0**12
    into = np.zeros((1, 1))
    add_product(into, rows)
    assert into[0, 0] == 2.0**24 + 100
