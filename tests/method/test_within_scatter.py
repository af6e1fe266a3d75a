"""The sums Σ ω r rᵀ, and the dual form of a scatter against the D×D one."""

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
        into = np.asarray(np.ones((11, 11)), order=order)
        add_product(into, x, weights)
        each = zip(x.astype(np.float64), np.ones(23) if weights is None else weights, strict=True)
        expected = np.tril(sum(v * np.outer(r, r) for r, v in each))
        np.testing.assert_allclose(np.tril(into - 1), expected, atol=tolerance * np.abs(expected).max())


def test_blocks_of_float32_are_summed_in_float64(monkeypatch):
    # 2**24 + 1 is no float32: a sum in float32 would lose every row after the first
    monkeypatch.setattr(within_scatter, "ROWS", 1)
    rows = np.ones((101, 1), dtype=np.float32)
    rows[0] = 2.0**12
    into = np.zeros((1, 1))
    add_product(into, rows)
    assert into[0, 0] == 2.0**24 + 100


@pytest.mark.parametrize("cuts", [[], [3], [3, 3, 9], [1, 2, 4, 8, 11]])
def test_a_solution_by_rows_is_that_of_the_formed_scatter_however_the_rows_arrive(cuts):
    rng = np.random.default_rng(0)
    rows, right, scatter = rng.normal(size=(12, 30)), rng.normal(size=(30, 4)), RowScatter(30, (), 0.5)
    for piece in np.split(rows, cuts):
        scatter = scatter.grown(piece)
    expected = np.linalg.solve(rows.T @ rows + 0.5 * np.eye(30), right)
    np.testing.assert_allclose(scatter.solve(right, 0.5), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.tril(scatter.dense()), np.tril(rows.T @ rows), rtol=1e-13)


def test_room_ends_where_the_formed_scatter_is_cheaper_or_the_ridge_too_small():
    scatter = RowScatter(8, (), 1.0).grown(np.ones((6, 8)))
    assert scatter.has_room(4)
    assert not scatter.has_room(5)
    for spoilt in (1e9, np.nan, np.inf):
        assert RowScatter(3, (), 1e-6).grown(np.full((1, 3), spoilt)) is None


@pytest.mark.parametrize("rows_per_feature", [0.6, 1.25, 9.0])
def test_the_released_variant_is_the_same_by_rows_and_by_features(monkeypatch, rows_per_feature):
    # 0.6: the rows of the first tasks only, then the scatter is formed; 9: never formed, more rows than features
    seed, options, found = ShiftedDomains(0).build(D=100), VARIANTS["released"], []
    for room in (rows_per_feature, 0):
        monkeypatch.setattr(within_scatter, "ROWS_PER_FEATURE", room)
        sources = sources_of(seed, options)
        found.append([model.classifier for model in (*sources, *adapted_to(seed, options, sources))])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine.W, theirs.W, rtol=1e-6, atol=1e-6 * np.abs(theirs.W).max())
        np.testing.assert_allclose(mine.b, theirs.b, rtol=1e-6)
