from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.task_files import ClassRow
from pipeline.datasets.tasks import class_order, task_classes, task_of_classes
from pipeline.errors import InputError
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


@given(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=40, unique=True), st.integers(1, 50))
def test_against_the_oracle(classes, per_task):
    task_of = task_of_classes(classes, per_task)
    tasks = naive_tasks(classes, per_task)
    assert task_of == {name: t for t, names in enumerate(tasks) for name in names}


def test_the_class_sets_of_the_tasks():
    task_of = task_of_classes("abcdefg", 3)
    rows = [ClassRow(label, name, task) for label, (name, task) in enumerate(task_of.items())]
    assert [labels.tolist() for labels in task_classes(rows)] == [[0, 1, 2], [3, 4, 5, 6]]


def test_classes_are_sorted_capitals_first_and_given_names_replace_those_found():
    assert class_order(["b", "a", "b", "T"]) == ("T", "a", "b")
    assert class_order(["b"], {"c": "", "a": ""}) == ("a", "c")


def test_tasks_that_are_given_win():
    given = [["cup", "bike"], ["ant"]]
    assert task_of_classes(["ant", "bike", "cup"], 1, tasks=given) == {"cup": 0, "bike": 0, "ant": 1}
    with pytest.raises(InputError, match=r"datasets\.\*\.tasks.*'dog'"):
        task_of_classes(["ant", "bike", "cup"], 1, tasks=[["cup", "bike"], ["ant", "dog"]])


def test_classes_that_are_not_listed_arrive_last_and_leave_the_others_where_they_are():
    given = [["cup", "bike"], ["ant"]]
    before = task_of_classes(["ant", "bike", "cup"], 2, tasks=given)
    after = task_of_classes(["ant", "ape", "bike", "cup", "aye", "bee"], 2, tasks=given)
    assert list(after)[:3] == list(before)
    assert after == before | {"ape": 2, "aye": 2, "bee": 2}


def test_a_class_order_seed_shuffles_as_continual_learning_papers_do():
    names = [f"{i:03d}" for i in range(100)]
    shuffled = task_of_classes(names, 10, order_seed=1993)
    assert [int(name) for name in shuffled][:5] == [68, 56, 78, 8, 23]  # iCaRL's order of CIFAR-100
    assert sorted(shuffled) == names
    assert list(shuffled.values()) == [i // 10 for i in range(100)]
