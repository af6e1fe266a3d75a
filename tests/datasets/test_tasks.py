from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.tasks import task_of_classes
from reference.naive_tasks import naive_tasks


@pytest.mark.parametrize(
    ("classes", "per_task", "sizes"),
    [
        (31, 6, [6, 6, 6, 6, 7]),
        (65, 5, [5] * 13),
        (12, 3, [3] * 4),
        (345, 23, [23] * 15),
        (10, 2, [2] * 5),
        (10, 4, [4, 6]),
        (3, 5, [3]),
        (1, 1, [1]),
    ],
)
def test_the_sizes_of_the_published_task_sequences(classes, per_task, sizes):
    task_of = task_of_classes([f"{i:03d}" for i in range(classes)], per_task)
    assert [Counter(task_of.values())[t] for t in range(len(sizes))] == sizes


@given(
    st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=40, unique=True),
    st.integers(1, 50),
)
def test_against_the_oracle(classes, per_task):
    task_of = task_of_classes(classes, per_task)
    tasks = naive_tasks(classes, per_task)
    assert task_of == {name: t for t, names in enumerate(tasks) for name in names}


def test_the_order_given_does_not_matter():
    assert task_of_classes(["c", "a", "b"], 1) == {"a": 0, "b": 1, "c": 2}
