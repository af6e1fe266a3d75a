"""The sums Σ ω r rᵀ, and the dual form of a scatter against the D×D form."""

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains, adapted_to, sources_of
from pipeline.method import within_scatter
from pipeline.method.variants import VARIANTS
from pipeline.method.within_scatter import RowScatter, add_product


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-14)])
@pytest.mark.parametrize(("columns", "rows"), [(512, 2048), (5, 7), (1, 1)])
def test_the_lower_triangle_is_the_sum_of_outer_products(monkeypatch, order, dtype, tolerance, columns, rows):
    monkeypatch.setattr(within_scatter, "COLUMNS", columns)
    monkeypatch.setattr(within_scatter, "ROWS", rows)
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(23, 11)).astype(dtype), rng.uniform(0, 2, 23)
    for weights in (w, None):
        triangle = np.asarray(np.ones((11, 11)), order=order)
        add_product(triangle, x, weights)
        pairs = zip(x.astype(np.float64), np.ones(23) if weights is None else weights, strict=True)
        expected = np.tril(sum(v * np.outer(r, r) for r, v in pairs))
        np.testing.assert_allclose(np.tril(triangle - 1), expected, atol=tolerance * np.abs(expected).max())


def test_blocks_of_float32_are_summed_in_float64(monkeypatch):
    # 2**24 + 1 is not a float32: a float32 sum would lose every row after the first
    monkeypatch.setattr(within_scatter, "ROWS", 1)
    rows = np.ones((101, 1), dtype=np.float32)
    rows[0] = 2.0**12
    triangle = np.zeros((1, 1))
    add_product(triangle, rows)
    assert triangle[0, 0] == 2.0**24 + 100


@pytest.mark.parametrize("cuts", [[], [3], [3, 3, 9], [1, 2, 4, 8, 11]])
def test_row_scatter_solves_like_the_dense_scatter_for_any_pieces(cuts):
    rng = np.random.default_rng(0)
    rows, right, scatter = rng.normal(size=(12, 30)), rng.normal(size=(30, 4)), RowScatter(30, (), 0.5)
    for piece in np.split(rows, cuts):
        scatter = scatter.grown(piece)
    expected = np.linalg.solve(rows.T @ rows + 0.5 * np.eye(30), right)
    np.testing.assert_allclose(scatter.solve(right, 0.5), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.tril(scatter.dense()), np.tril(rows.T @ rows), rtol=1e-13)


def test_rows_end_where_the_dense_scatter_is_cheaper_or_the_ridge_is_too_small():
    scatter = RowScatter(8, (), 1.0).grown(np.ones((6, 8)))
    assert scatter.has_room(4)
    assert not scatter.has_room(5)
    for value in (1e9, np.nan, np.inf):
        assert RowScatter(3, (), 1e-6).grown(np.full((1, 3), value)) is None


@pytest.mark.parametrize("rows_per_feature", [0.6, 1.25, 9.0])
def test_released_is_the_same_with_row_and_dense_scatters(monkeypatch, rows_per_feature):
    # 0.6: rows for the first tasks only, then dense; 9: always rows, more of them than features
    seed, options, results = ShiftedDomains(0).build(D=100), VARIANTS["released"], []
    for limit in (rows_per_feature, 0):
        monkeypatch.setattr(within_scatter, "ROWS_PER_FEATURE", limit)
        sources = sources_of(seed, options)
        results.append([model.classifier for model in (*sources, *adapted_to(seed, options, sources))])
    for by_rows, dense in zip(*results, strict=True):
        np.testing.assert_allclose(by_rows.W, dense.W, rtol=1e-6, atol=1e-6 * np.abs(dense.W).max())
        np.testing.assert_allclose(by_rows.b, dense.b, rtol=1e-6)
