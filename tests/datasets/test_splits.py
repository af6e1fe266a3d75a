import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.splits import is_test
from reference.naive_splits import naive_test_contents

CONTENTS = st.lists(st.sampled_from([f"content{i}" for i in range(30)]), min_size=1, max_size=60)


def split(contents, *, classes=None, domain="amazon", seed=0, fraction=0.1):
    classes = ["bike"] * len(contents) if classes is None else classes
    return is_test(domain, seed, classes, contents, test_fraction=fraction)


def unique(n):
    return [f"image {i}" for i in range(n)]


@given(CONTENTS, st.integers(0, 5), st.sampled_from([0.1, 0.25, 0.5, 0.9]))
def test_against_the_oracle(contents, seed, fraction):
    test = split(contents, seed=seed, fraction=fraction)
    expected = naive_test_contents("amazon", seed, contents, fraction)
    assert {c for c, t in zip(contents, test, strict=True) if t} == set(expected)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("pqrstuvwxyz")), max_size=40))
def test_against_the_oracle_with_several_classes(rows):
    classes, contents = [r[0] for r in rows], [r[1] for r in rows]
    test = split(contents, classes=classes, fraction=0.3)
    for name in set(classes):
        here = [content for c, content in rows if c == name]
        elsewhere = {content for c, content in rows if c != name}
        expected = naive_test_contents("amazon", 0, here, 0.3, elsewhere)
        found = {row[1] for row, t in zip(rows, test, strict=True) if t and row[0] == name}
        assert found == set(expected)


@given(CONTENTS)
def test_copies_fall_on_the_same_side(contents):
    test = split(contents)
    sides = {}
    for content, side in zip(contents, test, strict=True):
        assert sides.setdefault(content, side) == side


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("pqrstu")), max_size=30))
def test_copies_in_two_classes_fall_on_the_same_side(rows):
    test = split([r[1] for r in rows], classes=[r[0] for r in rows], fraction=0.5)
    sides = {}
    for (_, content), side in zip(rows, test, strict=True):
        assert sides.setdefault(content, side) == side


@given(CONTENTS, st.randoms(use_true_random=False))
def test_the_order_does_not_matter(contents, random):
    order = list(range(len(contents)))
    random.shuffle(order)
    assert split([contents[i] for i in order]).tolist() == split(contents)[order].tolist()


@pytest.mark.parametrize("n", [2, 3, 9, 10, 100, 1000])
def test_the_fraction(n):
    assert split(unique(n)).sum() == max(1, round(0.1 * n))


@pytest.mark.parametrize(("n", "fraction", "expected"), [(1, 0.9, 0), (2, 0.99, 1), (2, 0.01, 1)])
def test_never_all_and_never_none_of_two(n, fraction, expected):
    assert split(unique(n), fraction=fraction).sum() == expected


def test_each_class_is_split_by_itself():
    classes = ["a"] * 50 + ["b"] * 30
    both = split(unique(80), classes=classes)
    np.testing.assert_array_equal(both[:50], split(unique(80)[:50]))
    np.testing.assert_array_equal(both[50:], split(unique(80)[50:]))


def test_seeds_and_domains_differ_and_are_reproduced():
    first = split(unique(500))
    assert not np.array_equal(first, split(unique(500), seed=1))
    assert not np.array_equal(first, split(unique(500), domain="dslr"))
    np.testing.assert_array_equal(first, split(unique(500)))


def test_adding_images_moves_few_others():
    before, after = split(unique(1000)), split(unique(1050))[:1000]
    assert np.mean(before != after) < 0.01


def test_no_images():
    assert split([]).tolist() == []
