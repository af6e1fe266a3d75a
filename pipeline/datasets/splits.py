"""Disjoint train and test images, drawn once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


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
    ranked = sorted(members - shared, key=lambda content: _rank(domain, seed, content))
    return set(ranked[:n_test])


def _rank(domain: str, seed: int, content: str) -> bytes:
    return hashlib.sha256(f"{domain}\n{seed}\n{content}".encode()).digest()
