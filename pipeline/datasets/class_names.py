"""Classes: the order they come in, and their names as people say them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def spoken(name: str) -> str:
    """Return a folder's name as words: ``desk_lamp`` is a desk lamp, ``t-shirt`` a t shirt."""
    words = name.replace("_", " ").replace("-", " ").split()
    return " ".join(words) or name


def class_order(found: Iterable[str], given: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the C class names in sorted order; a class's label is its index there.

    ``given`` (the keys of `class_names` in params.yaml) decides where there is any, so that a
    domain without images of a class numbers the others as its sibling domains do. Sorting is by
    code point, as Python and `LC_ALL=C ls` have it: capitals come first.
    """
    return tuple(sorted(set(given) or set(found)))


def spoken_names(classes: Sequence[str], given: Mapping[str, str]) -> list[str]:
    """Return the (C,) names for prompts: the given one, else the folder's name as words."""
    return [given.get(name) or spoken(name) for name in classes]
