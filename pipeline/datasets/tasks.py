"""Split images into train and test, and assign them to tasks by the order in which classes arrive."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.task_files import ClassRow, Tasks


def choose_test_images(
    domain: str, seed: int, classes: Sequence[str], contents: Sequence[str], *, test_fraction: float
) -> NDArray[np.bool_]:
    """Choose the test images of a domain under a seed.

    In each class, the distinct contents are ranked by a hash of (domain, seed, content). The first
    ``round(test_fraction * number)`` are test: at least one of two or more, never all. Therefore

    - copies of an image are on the same side, so no test image is also a train image;
    - the split depends only on domain, seed and images, not on their order or names, a random generator's state, or
      other seeds and domains;
    - adding images moves few of the others.

    Contents that occur in several classes are train in all of them, because their label is in doubt and each class
    could assign them to a different side.

    Examples
    --------
    >>> choose_test_images("webcam", 0, ["mug"] * 4, ["a", "b", "c", "b"], test_fraction=0.3)
    array([False,  True, False,  True])
    """
    by_class: dict[str, set[str]] = {}
    for name, content in zip(classes, contents, strict=True):
        by_class.setdefault(name, set()).add(content)
    counts = Counter(content for members in by_class.values() for content in members)
    shared = {content for content, count in counts.items() if count > 1}
    test: set[str] = set()
    for members in by_class.values():
        n_test = min(max(1, round(test_fraction * len(members))), len(members) - 1)
        rank = {content: _rank(domain, seed, content) for content in members - shared}
        test.update(sorted(rank, key=rank.__getitem__)[:n_test])
    return np.array([content in test for content in contents], dtype=np.bool_)


def _rank(domain: str, seed: int, content: str) -> bytes:
    return hashlib.sha256(f"{domain}\n{seed}\n{content}".encode()).digest()


def arrange(
    domain: str,
    order: Iterable[Iterable[str]],
    labels: Sequence[str],
    contents: Sequence[str],
    *,
    seeds: Sequence[int],
    test_fraction: float,
) -> tuple[list[ClassRow], Tasks]:
    """Return the classes in order of arrival, and the task and split (`choose_test_images`) of every image.

    ``order`` has the classes of each task, including classes without images; ``labels`` and ``contents`` are the class
    and sha256 of each of the n images, empty if the domain is unlabelled.
    """
    task_of = {name: task for task, names in enumerate(order) for name in names}
    classes = [ClassRow(label, name, task) for label, (name, task) in enumerate(task_of.items())]
    test = [choose_test_images(domain, seed, labels, contents, test_fraction=test_fraction) for seed in seeds]
    task = np.array([task_of[name] for name in labels], dtype=np.int64)
    return classes, Tasks(task, tuple(seeds), np.stack(test, axis=1))
