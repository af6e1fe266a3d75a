"""What `referee doctor` says of the images: how many, of which classes; none is opened."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pipeline.cli.findings import Finding, missing, note, ok
from pipeline.datasets import layouts
from pipeline.datasets.class_names import class_order
from pipeline.encoders.image_decoding import IMAGE_SUFFIXES
from pipeline.errors import InputError, listed
from pipeline.params import Params


def images(params: Params, root: Path, *, counts: bool) -> Iterator[str | Finding]:
    """Yield one finding per domain, and with ``counts`` a line per class below it."""
    classes_of: dict[str, dict[str, tuple[str, ...]]] = {}
    for key, domain in params.domains.items():
        place = root / domain.images
        if key in params.generated and not place.exists():
            yield note(f"{key}: {domain.images} is not there yet", "`dvc repro` writes it")
            continue
        try:
            found = _find(key, params, root)
        except InputError as error:
            what, _, remedy = str(error).partition("; ")
            yield missing(f"{key}: {what}", remedy)
            continue
        listed_images = any(entry.domain == key for entry in params.lists.values())
        folders = [] if listed_images else layouts.class_folders(place)
        given = params.datasets[domain.dataset].class_names or folders
        classes = class_order((image.class_name for image in found), given)
        classes_of.setdefault(domain.dataset, {})[key] = classes
        per_class = Counter(image.class_name for image in found)
        yield _domain(key, domain.images, {name: per_class[name] for name in classes}, params)
        if counts:
            yield from (f"      {per_class[name]:>7,}  {name}" for name in classes)
    yield from _unlike(classes_of)


def _find(key: str, params: Params, root: Path) -> list[layouts.LabelledImage]:
    """Find the images as the manifest stage does, but with the lists where the dataset has them."""
    domain = params.domains[key]
    class_names = tuple(params.datasets[domain.dataset].class_names)
    place = root / domain.images
    if place.suffix == ".npz":
        return layouts.npz_paths(place, key, class_names=class_names)
    lists = [entry for entry in params.lists.values() if entry.domain == key]
    return layouts.find_images(
        place,
        suffixes=IMAGE_SUFFIXES,
        lists=[(root / entry.file, root / entry.root) for entry in lists],
        class_names=class_names,
    )


def _domain(key: str, place: str, per_class: dict[str, int], params: Params) -> Finding:
    total = sum(per_class.values())
    if not total:
        return missing(f"{key}: no images in {place}", "one folder per class is expected there")
    numbers = per_class.values()
    what = (
        f"{key}: {total:,} images in {place}, {len(per_class)} classes of "
        f"{min(numbers):,} to {max(numbers):,}, median {statistics.median(numbers):,.0f}"
    )
    empty = [name for name, count in per_class.items() if not count]
    if not empty:
        return ok(what)
    what += f"; no images of {listed(empty)}"
    if params.data.empty_class == "report":
        return note(what)
    return missing(what, "add images, or set data.empty_class: report in params.yaml")


def _unlike(classes_of: dict[str, dict[str, tuple[str, ...]]]) -> Iterator[Finding]:
    """Yield the datasets whose domains have different classes: their labels would not agree."""
    for dataset, by_domain in classes_of.items():
        first, *others = by_domain
        for other in others:
            differ = sorted(set(by_domain[first]) ^ set(by_domain[other]))
            if differ:
                yield missing(
                    f"{dataset}: not both {first} and {other} have the classes {listed(differ)}",
                    f"name all classes in datasets.{dataset}.class_names",
                )
