import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError, ParamsError
from pipeline.method import class_statistics as cs
from pipeline.method import scatter_products
from pipeline.method.random_fourier_features import deviation, draw_basis, features
from reference import class_statistics as oracle

NAMES = ("count", "weight", "squared_weight", "sums", "scatter")


def rows_of(seed, n=60, D=9, C=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, C, n)
    rows = (rng.normal(size=(n, D)) + labels[:, None]).astype(np.float32).astype(np.float64)
    return rows, labels, rng.uniform(0, 1, n)


def assert_same(a, b, rtol=1e-9):
    for name in NAMES:
        x, y = getattr(a, name), getattr(b, name)
        if name == "scatter":  # above the diagonal is nothing
            x, y = np.tril(x), np.tril(y)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * max(np.abs(y).max(), 1e-300))


def test_means_and_covariance_are_the_oracles():
    rows, labels, weights = rows_of(0)
    statistics = cs.from_rows(rows, labels, weights, 4)
    np.testing.assert_allclose(statistics.means(), oracle.means(rows, labels, weights, 4))
    expected = oracle.covariance(rows, labels, weights, 4)
    np.testing.assert_allclose(cs.symmetric(statistics.covariance()), expected, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), cuts=st.lists(st.integers(0, 60), max_size=5))
def test_any_batching_order_and_merge_gives_the_same_numbers(seed, cuts):
    rows, labels, weights = rows_of(seed)
    whole = cs.from_rows(rows, labels, weights, 4)
    order = np.random.default_rng(seed).permutation(60)
    parts = [cs.from_rows(rows[i], labels[i], weights[i], 4) for i in np.split(order, sorted(cuts))]
    merged = parts[-1]
    for part in parts[:-1]:
        merged = part + merged
    assert_same(merged, whole)
    in_place = cs.zeros(4, 9)
    for part in parts:
        in_place += part
    assert_same(in_place, whole)


def test_the_row_blocks_inside_do_not_show(monkeypatch):
    rows, labels, weights = rows_of(3, n=700)
    whole = cs.from_rows(rows, labels, weights, 4)
    monkeypatch.setattr(cs, "ROWS", 7)
    monkeypatch.setattr(scatter_products, "ROWS", 7)
    monkeypatch.setattr(scatter_products, "COLUMNS", 4)
    assert_same(cs.from_rows(rows, labels, weights, 4), whole)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999))
def test_an_integer_weight_is_a_repetition(seed):
    rows, labels, _ = rows_of(seed)
    times = np.random.default_rng(seed).integers(0, 4, 60)
    weighted = cs.from_rows(rows, labels, times.astype(float), 4)
    repeated = cs.from_rows(np.repeat(rows, times, 0), np.repeat(labels, times), None, 4)
    np.testing.assert_allclose(weighted.weight, repeated.weight)
    np.testing.assert_allclose(weighted.sums, repeated.sums, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(weighted.scatter, repeated.scatter, rtol=1e-9, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), cut=st.integers(1, 59))
def test_subtract_inverts_add(seed, cut):
    rows, labels, weights = rows_of(seed)
    a = cs.from_rows(rows[:cut], labels[:cut], weights[:cut], 4)
    b = cs.from_rows(rows[cut:], labels[cut:], weights[cut:], 4)
    back = (a + b) - b
    for name in NAMES:
        np.testing.assert_allclose(getattr(back, name), getattr(a, name), atol=1e-9)


@pytest.mark.parametrize("nested", [1, 20, 64, 100])
def test_the_statistics_of_a_nested_basis_are_a_sub_block(nested):
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(50, 12)), np.arange(50) % 3
    basis = draw_basis(12, 100, 1.0, "bandwidth", 0)
    large = cs.from_rows(deviation(basis, x), labels, None, 3).nested(nested)
    small = cs.from_rows(deviation(basis.nested(nested), x), labels, None, 3)
    assert_same(large, small, rtol=1e-6)  # float32 rounds sqrt(2/D) differently


def test_classes_grow_from_task_to_task():
    rows, labels, weights = rows_of(1)
    first, later = labels < 2, labels >= 2
    earlier = cs.from_rows(rows[first], labels[first], weights[first], 2)
    both = earlier + cs.from_rows(rows[later], labels[later], weights[later], 4)
    assert_same(both, cs.from_rows(rows, labels, weights, 4))
    assert earlier.grown(4).empty_classes == [2, 3]
    grown = earlier.grown(4)
    grown += both
    assert_same(earlier, cs.from_rows(rows[first], labels[first], weights[first], 2))


def test_saving_keeps_every_bit_and_half_the_scatter():
    statistics = cs.from_rows(*rows_of(2), 4)
    arrays = statistics.to_arrays()
    assert arrays["scatter"].shape == (9 * 10 // 2,)
    back = cs.ClassStatistics.from_arrays(arrays)
    assert_same(back, statistics, rtol=0)
    back += statistics  # still of the layout that BLAS updates in place
    assert_same(back, statistics + statistics)


def test_the_naive_float32_second_moment_fails_where_ours_holds():
    """gamma = 1e-4: E[zzᵀ] − μμᵀ in float32 keeps two digits at best, ours six."""
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(2000, 64)), np.arange(2000) % 2
    basis = draw_basis(64, 300, 1e-4, "gamma", 0)
    unit = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
    phase = unit @ basis.omega.astype(np.float64) + basis.beta.astype(np.float64)
    exact_z = np.sqrt(2 / 300) * np.cos(phase)
    centred = exact_z - np.array([exact_z[labels == c].mean(0) for c in (0, 1)])[labels]
    exact = centred.T @ centred / 2000

    def error(covariance):
        return np.abs(covariance - exact).max() / np.abs(exact).max()

    ours = cs.symmetric(cs.from_rows(deviation(basis, x), labels, None, 2).covariance())
    z = features(basis, x)
    naive = z.T @ z / np.float32(2000)
    for c in (0, 1):
        mean = z[labels == c].mean(0)
        naive -= np.float32(0.5) * np.outer(mean, mean)
    assert error(ours) < 1e-6
    assert error(naive) > 1e-3


def test_degrees_of_freedom_count_rows_about_their_means():
    rows, labels, _ = rows_of(0)
    assert cs.from_rows(rows, labels, None, 4).degrees_of_freedom() == pytest.approx(60 - 4)
    assert cs.from_rows(rows, labels, np.full(60, 0.3), 4).degrees_of_freedom() == pytest.approx(56)


def test_mistakes_are_named():
    rows, labels, weights = rows_of(0)
    with pytest.raises(InputError, match="classes are 0–2"):
        cs.from_rows(rows, labels, weights, 3)
    with pytest.raises(InputError, match="belong together"):
        cs.from_rows(rows, labels[:-1], weights, 4)
    with pytest.raises(InputError, match="negative"):
        cs.from_rows(rows, labels, -weights, 4)
    with pytest.raises(InputError, match="do not merge"):
        cs.zeros(2, 3) + cs.zeros(2, 4)
    with pytest.raises(InputError, match="no row has any weight"):
        cs.zeros(2, 3).covariance()
    with pytest.raises(ParamsError, match="shrink to 1"):
        cs.zeros(2, 3).grown(1)
    with pytest.raises(InputError, match="no array 'sums'"):
        cs.ClassStatistics.from_arrays(
            {"count": weights, "weight": weights, "squared_weight": weights}
        )
