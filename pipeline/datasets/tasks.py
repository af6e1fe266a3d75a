"""Classes and tasks: the order of the classes, which arrive together, and the split of the images."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.task_files import ClassRow, Tasks
from pipeline.errors import InputError, did_you_mean


def is_test(
    domain: str, seed: int, classes: Sequence[str], contents: Sequence[str], *, test_fraction: float
) -> NDArray[np.bool_]:
    """Choose the test images of a domain under a seed.

    In each class the distinct contents are ranked by a hash of (domain, seed, content); the first
    ``round(test_fraction * their number)`` are test: at least one of two or more, never all. So

    - copies of an image fall on the same side: no test image was ever a train image;
    - the split depends on nothing but domain, seed and images: not on their order or names, a
      random generator's state, or what other seeds and domains there are;
    - adding images moves few of the others.

    A content that occurs in several classes is train in all of them: its label is in doubt, and
    each class by itself could put it on a different side.

    Examples
    --------
    >>> is_test("webcam", 0, ["mug"] * 4, ["a", "b", "c", "b"], test_fraction=0.3)
    array([False,  True, False,  True])
    """
    by_class: dict[str, set[str]] = {}
    for name, content in zip(classes, contents, strict=True):
        by_class.setdefault(name, set()).add(content)
    times = Counter(content for members in by_class.values() for content in members)
    shared = {content for content, count in times.items() if count > 1}
    test = {name: _drawn(domain, seed, members, shared, test_fraction) for name, members in by_class.items()}
    sides = [content in test[name] for name, content in zip(classes, contents, strict=True)]
    return np.array(sides, dtype=np.bool_)


def _drawn(domain: str, seed: int, members: set[str], shared: set[str], test_fraction: float) -> set[str]:
    """Return the test contents of one class."""
    n = len(members)
    n_test = min(max(1, round(test_fraction * n)), n - 1)
    rank = {content: hashlib.sha256(f"{domain}\n{seed}\n{content}".encode()).digest() for content in members - shared}
    return set(sorted(rank, key=rank.__getitem__)[:n_test])


def class_order(found: Iterable[str], given: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the C class names in sorted order; a class's label is its index there.

    ``given`` (the keys of datasets.*.class_names in suite.yaml) decides where there is any, so that a
    domain without images of a class numbers the others as its sibling domains do. Sorting is by
    code point, as Python and `LC_ALL=C ls` have it: capitals come first.
    """
    return tuple(sorted(set(given) or set(found)))


def task_of_classes(
    classes: Iterable[str],
    classes_per_task: int,
    *,
    tasks: Sequence[Sequence[str]] | None = None,
    order_seed: int | None = None,
) -> dict[str, int]:
    """Return the task, 0 to T - 1, of each of C classes, in the order of arrival.

    Sorted classes arrive ``classes_per_task`` at a time; the last task takes the remainder. ``order_seed`` shuffles
    them first, by the permutation of NumPy's legacy generator as continual-learning papers do: 1993 gives the order of
    iCaRL and its successors. ``tasks`` gives the classes of each task instead; those that it does not list arrive after
    them, so that a new class leaves the tasks of the others alone.

    Examples
    --------
    >>> task_of_classes(["mug", "bike", "pen", "chair", "lamp"], 2)
    {'bike': 0, 'chair': 0, 'lamp': 1, 'mug': 1, 'pen': 1}
    >>> task_of_classes(["mug", "bike", "pen"], 1, tasks=[["pen"], ["bike", "mug"]])
    {'pen': 0, 'bike': 1, 'mug': 1}
    >>> task_of_classes(["mug", "bike", "pen"], 1, tasks=[["pen", "mug"]])
    {'pen': 0, 'mug': 0, 'bike': 1}
    >>> list(task_of_classes(["mug", "bike", "pen"], 1, order_seed=1993))
    ['bike', 'pen', 'mug']
    """
    ordered = sorted(set(classes))
    if tasks is not None:
        return _given_tasks(ordered, tasks, classes_per_task)
    if order_seed is not None:
        permutation = np.random.RandomState(order_seed).permutation(len(ordered))
        ordered = [ordered[index] for index in permutation]
    last = max(1, len(ordered) // classes_per_task) - 1
    return {name: min(index // classes_per_task, last) for index, name in enumerate(ordered)}


def _given_tasks(classes: Sequence[str], tasks: Sequence[Sequence[str]], classes_per_task: int) -> dict[str, int]:
    """Return the tasks that suite.yaml lists, and after them those of the classes that it does not list."""
    given = {name: task for task, names in enumerate(tasks) for name in names}
    unknown = [name for name in given if name not in classes]
    if unknown:
        raise InputError(
            f"suite.yaml: datasets.*.tasks: {unknown[0]!r} is no class of it; take it out of the list"
            f"{did_you_mean(unknown[0], classes)}"
        )
    new = task_of_classes([name for name in classes if name not in given], classes_per_task)
    return given | {name: len(tasks) + task for name, task in new.items()}


def arrange(
    domain: str,
    order: Iterable[Iterable[str]],
    labels: Sequence[str],
    contents: Sequence[str],
    *,
    seeds: Sequence[int],
    test_fraction: float,
) -> tuple[list[ClassRow], Tasks]:
    """Return the classes in order of arrival, and the task and the split of every image, see `is_test`.

    ``order`` has the classes of each task, those without images too; ``labels`` and ``contents`` the class and sha256
    of each of the n images, nothing of a domain without labels.
    """
    task_of = {name: task for task, names in enumerate(order) for name in names}
    classes = [ClassRow(label, name, task) for label, (name, task) in enumerate(task_of.items())]
    test = [is_test(domain, seed, labels, contents, test_fraction=test_fraction) for seed in seeds]
    task = np.array([task_of[name] for name in labels], dtype=np.int64)
    return classes, Tasks(task, tuple(seeds), np.stack(test, axis=1))
