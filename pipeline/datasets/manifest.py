"""Make a manifest from labelled images: read each once, assign tasks and splits, report."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from pipeline.datasets import splits
from pipeline.datasets.class_names import class_order
from pipeline.datasets.layouts import LabelledImage
from pipeline.datasets.manifest_files import ClassRow, ImageRow, LabelRow, Manifest, Tasks
from pipeline.datasets.tasks import task_of_classes
from pipeline.errors import InputError, listed

__all__ = ["ImageFacts", "ImageRow", "build"]


class ImageFacts(Protocol):
    """What is known of an image once its file has been read."""

    @property
    def sha256(self) -> str: ...  # noqa: D102
    @property
    def width(self) -> int: ...  # noqa: D102
    @property
    def height(self) -> int: ...  # noqa: D102


@dataclass(frozen=True)
class _PathOnly:
    """Facts of an image that is not there: its path stands in for its content."""

    sha256: str
    width: int = 0
    height: int = 0


def build(
    found: Sequence[LabelledImage],
    *,
    domain: str,
    place: str,
    class_names: Iterable[str],
    classes_per_task: int,
    seeds: Sequence[int],
    test_fraction: float,
    read_facts: Callable[[Path], ImageFacts] | None,
    unreadable: Literal["stop", "skip"] = "stop",
    empty_class: Literal["stop", "report"] = "stop",
    workers: int = 0,
    by_content: bool = False,
) -> Manifest:
    """Read every image once and lay out the manifest.

    ``place`` is the folder (or .npz) that messages name, ``read_facts`` None where the images are
    absent and only their paths are known; ``class_names`` empty means the classes found. Rows are in
    the order of the paths, which is that of the classes; ``by_content``: of the images' sha256, which
    says nothing of them.
    """
    classes = class_order((image.class_name for image in found), class_names)
    task_of = task_of_classes(classes, classes_per_task)
    label_of = {name: label for label, name in enumerate(classes)}
    kept, skipped = _read_all(found, read_facts, workers)
    if skipped and unreadable == "stop":
        raise InputError(_all_unreadable(place, skipped))
    if by_content:
        kept.sort(key=lambda pair: pair[1].sha256)
    names = [image.class_name for image, _ in kept]
    paths = [image.path.as_posix() for image, _ in kept]
    contents = [fact.sha256 for _, fact in kept]
    tally = Counter(names)
    counts = {name: tally[name] for name in classes}
    _refuse_empty(place, counts, empty_class)
    test = [
        splits.is_test(domain, seed, names, contents, test_fraction=test_fraction) for seed in seeds
    ]
    manifest = Manifest(
        images=tuple(
            ImageRow(path, fact.sha256, fact.width, fact.height)
            for path, (_, fact) in zip(paths, kept, strict=True)
        ),
        tasks=Tasks(
            task=np.array([task_of[name] for name in names], dtype=np.int64),
            seeds=tuple(seeds),
            test=np.stack(test, axis=1),
        ),
        classes=tuple(ClassRow(label_of[name], name, task_of[name]) for name in classes),
        labels=tuple(LabelRow(p, c, label_of[c]) for p, c in zip(paths, names, strict=True)),
        report={
            "domain": domain,
            "made_from": "paths" if read_facts is None else "images",
            "images": len(kept),
        },
    )
    manifest.report.update(_report(manifest, counts, task_of))
    manifest.report["unreadable"] = dict(skipped)
    return manifest


def _report(manifest: Manifest, counts: dict[str, int], task_of: dict[str, int]) -> dict[str, Any]:
    """Return what people want to know before they trust the images."""
    return {
        "classes": list(counts),
        "tasks": _classes_by_task(task_of),
        "images_per_class": counts,
        "empty_classes": [name for name, count in counts.items() if count == 0],
        "classes_without_test_images": _without_test(manifest),
        "duplicates": _duplicates(manifest),
    }


def _read_all(
    found: Sequence[LabelledImage],
    read_facts: Callable[[Path], ImageFacts] | None,
    workers: int,
) -> tuple[list[tuple[LabelledImage, ImageFacts]], list[tuple[str, str]]]:
    """Return the images that can be read with their facts, and (path, reason) of the others."""
    if read_facts is None:
        return [(image, _PathOnly(_digest(image.path.as_posix()))) for image in found], []

    def attempt(image: LabelledImage) -> ImageFacts | str:
        try:
            return read_facts(image.path)
        except (InputError, OSError) as error:
            return " ".join(str(error).split())

    kept: list[tuple[LabelledImage, ImageFacts]] = []
    skipped = []
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        results = tqdm(  # disable=None: no bar where stderr is not a terminal
            pool.map(attempt, found), total=len(found), desc="images", unit="image", disable=None
        )
        for image, result in zip(found, results, strict=True):
            if isinstance(result, str):
                path = image.path.as_posix()
                skipped.append((path, result.removeprefix(f"{path}: ")))
            else:
                kept.append((image, result))
    return kept, skipped


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _all_unreadable(place: str, skipped: Sequence[tuple[str, str]]) -> str:
    lines = [f"  {path}: {reason}" for path, reason in skipped]
    count = "1 file" if len(lines) == 1 else f"{len(lines)} files"
    first = (
        f"{place}: {count} cannot be read as images; mend or remove them, or leave them out with "
        "data.unreadable: skip in params.yaml"
    )
    return "\n".join([first, *lines])


def _refuse_empty(place: str, counts: dict[str, int], empty_class: str) -> None:
    if not any(counts.values()):
        raise InputError(
            f"{place}: no images in class folders below it; is it the folder of one domain, "
            "with one folder per class? (domains.*.images)"
        )
    empty = [name for name, count in counts.items() if count == 0]
    if empty and empty_class == "stop":
        several = "classes have" if len(empty) > 1 else "class has"
        raise InputError(
            f"{place}: {len(empty)} {several} no images: {listed(empty)}; add images, remove the "
            "name from datasets.*.class_names, or set data.empty_class: report in params.yaml"
        )


def _classes_by_task(task_of: dict[str, int]) -> list[list[str]]:
    tasks: list[list[str]] = [[] for _ in range(max(task_of.values()) + 1)]
    for name, task in task_of.items():
        tasks[task].append(name)
    return tasks


def _without_test(manifest: Manifest) -> list[str]:
    """Return the classes that, under some seed, have images but no test image."""
    tested: dict[str, NDArray[np.bool_]] = {}
    for row, (_, name, _) in enumerate(manifest.labels):
        here = manifest.tasks.test[row]
        tested[name] = tested[name] | here if name in tested else here
    return sorted(name for name, by_seed in tested.items() if not by_seed.all())


def _duplicates(manifest: Manifest) -> list[dict[str, Any]]:
    """Return the groups of images with the same content, those across classes flagged."""
    groups: dict[str, list[LabelRow]] = {}
    for image, label in zip(manifest.images, manifest.labels, strict=True):
        groups.setdefault(image.sha256, []).append(label)
    return [
        {
            "sha256": content,
            "across_classes": len({label.class_name for label in group}) > 1,
            "paths": [label.path for label in group],
        }
        for content, group in groups.items()
        if len(group) > 1
    ]
