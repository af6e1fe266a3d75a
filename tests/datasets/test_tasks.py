"""Tasks and splits: compared with naive versions, and pinned for all future versions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.kept_order import order_of_arrival
from pipeline.datasets.tasks import choose_test_images
from pipeline.errors import InputError
from reference.naive_tasks import naive_tasks, naive_test_contents


@given(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=40, unique=True), st.integers(1, 50))
def test_sorted_classes_arrive_as_in_the_oracle(classes, per_task):
    assert order_of_arrival(classes, classes_per_task=per_task) == naive_tasks(classes, per_task)


@pytest.mark.parametrize("first", ["kept", "tasks"])
def test_new_classes_arrive_last_and_leave_the_others_in_place(first):
    order = [["cup", "bike"], ["ant"]]
    settings = {"classes_per_task": 2, "class_order_seed": 1993, first: order}
    assert order_of_arrival(["ant", "bike", "cup"], **settings) == order
    assert order_of_arrival(["ape", "bike", "cup", "aye", "ant", "bee"], **settings) == [*order, ["ape", "aye", "bee"]]
    with pytest.raises(InputError, match=r"datasets\.\*\.tasks.*'dog'"):
        order_of_arrival(["ant", "bike"], order, classes_per_task=1, tasks=[["ant", "dog"]])


def test_a_class_order_seed_shuffles_as_continual_learning_papers_do():
    names = [f"{i:03d}" for i in range(100)]
    order = order_of_arrival(names, classes_per_task=10, class_order_seed=1993)
    assert [int(name) for name in order[0]][:5] == [68, 56, 78, 8, 23]  # iCaRL's order of CIFAR-100
    assert sorted(name for task in order for name in task) == names
    assert {len(task) for task in order} == {10}


ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("pqrstuvwxyz")), max_size=40)


def split(contents, *, classes=None, domain="amazon", seed=0, fraction=0.1):
    classes = ["bike"] * len(contents) if classes is None else classes
    return choose_test_images(domain, seed, classes, contents, test_fraction=fraction)


def distinct_contents(n):
    return [f"image {i}" for i in range(n)]


@given(ROWS, st.sampled_from(["amazon", "dslr"]), st.integers(0, 5), st.sampled_from([0.1, 0.3, 0.5, 0.9]))
def test_each_class_is_split_as_in_the_oracle(rows, domain, seed, fraction):
    """Equal contents are never on both sides, even if they occur in two classes."""
    classes, contents = [row[0] for row in rows], [row[1] for row in rows]
    test_contents = {}
    for name in set(classes):
        members, others = ([content for c, content in rows if (c == name) == inside] for inside in (True, False))
        test_contents[name] = naive_test_contents(domain, seed, members, fraction, others)
    test = split(contents, classes=classes, domain=domain, seed=seed, fraction=fraction)
    assert test.tolist() == [content in test_contents[name] for name, content in rows]
    assert len(set(zip(contents, test.tolist(), strict=True))) == len(set(contents))


def test_a_split_is_pinned_and_adding_images_moves_few_others():
    """Published numbers depend on the splits, so the ranks of the images must never change."""
    assert np.flatnonzero(split(distinct_contents(100))).tolist() == [0, 21, 28, 35, 46, 53, 78, 81, 88, 94]
    before, after = split(distinct_contents(1000)), split(distinct_contents(1050))[:1000]
    assert np.mean(before != after) < 0.01
