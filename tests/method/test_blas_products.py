"""BLAS called by hand against NumPy's own products, whatever the order in memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.method.blas_products import gram, product, subtract_product

ORDERS = st.sampled_from("CF")
TYPES = st.sampled_from([np.float32, np.float64])
SIZES = st.integers(0, 6)


def made(rng, shape, order, dtype):
    return np.asarray(rng.normal(size=shape).astype(dtype), order=order)


@given(SIZES, SIZES, SIZES, ORDERS, ORDERS, TYPES, TYPES)
def test_a_product_is_numpys(n, k, m, order_a, order_b, type_a, type_b):
    rng = np.random.default_rng(0)
    a, b = made(rng, (n, k), order_a, type_a), made(rng, (k, m), order_b, type_b)
    found = product(a, b)
    assert found.dtype == np.result_type(type_a, type_b)
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, a @ b, rtol=1e-4, atol=1e-5)


@given(SIZES, SIZES, SIZES, ORDERS, ORDERS)
def test_a_product_is_taken_away_where_it_stands(n, k, m, order_a, order_b):
    rng = np.random.default_rng(0)
    a, b = made(rng, (n, k), order_a, np.float64), made(rng, (k, m), order_b, np.float64)
    into = made(rng, (n, m), "C", np.float64)
    expected = into - a @ b
    subtract_product(into, a, b)
    np.testing.assert_allclose(into, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_gram_matrix_is_numpys_and_symmetric(order):
    a = made(np.random.default_rng(0), (7, 5), order, np.float64)
    found = gram(a)
    np.testing.assert_allclose(found, a.T @ a, rtol=1e-13)
    np.testing.assert_array_equal(found, found.T)
