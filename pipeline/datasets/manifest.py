"""Make a manifest from labelled images: read each once, assign tasks and splits, report."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pipeline.datasets import splits
from pipeline.datasets.manifest_files import ClassRow, ImageRow, Manifest, Tasks
from pipeline.datasets.sources.source import FoundImages, LabelledImage
from pipeline.datasets.tasks import class_order, task_of_classes
from pipeline.errors import InputError, listed, one_line


def build(
    found: FoundImages,
    *,
    domain: str,
    folder: str,
    class_names: Iterable[str],
    classes_per_task: int,
    tasks: Sequence[Sequence[str]] | None = None,
    order_seed: int | None = None,
    seeds: Sequence[int],
    test_fraction: float,
    read_facts: Callable[[Path], Any] | None,
    unreadable: Literal["stop", "skip"] = "stop",
    empty_class: Literal["stop", "report"] = "stop",
    workers: int = 0,
    by_content: bool = False,
    on_read: Callable[[], object] = lambda: None,
) -> Manifest:
    """Read every image once and lay out the manifest.

    Parameters
    ----------
    found : FoundImages
        What the domain's source of images found (`pipeline.datasets.sources`).
    domain : str
        Key of the domain; it enters the splits.
    folder : str
        The folder or file that messages name.
    class_names : iterable of str
        The classes; empty for those found.
    classes_per_task, tasks, order_seed
        In which order classes arrive, see `task_of_classes`.
    seeds : sequence of int
    test_fraction : float
    read_facts : callable or None
        Reads an image and returns its ``sha256``, ``width`` and ``height``; None where images
        are absent and only their paths are known.
    unreadable : {"stop", "skip"}
        What to do with a file that cannot be read as an image.
    empty_class : {"stop", "report"}
        What to do with a class without images.
    workers : int
        Number of threads; 0 for one per processor.
    by_content : bool
        Order the rows by the images' sha256 instead of by path. Paths are in the order of the
        classes; of a private domain the order of the rows must not tell them.
    on_read : callable
        Called after each image, to show progress: ``progress_bar(...).update``.

    Returns
    -------
    Manifest
        Its ``report`` says what was left out: ``unreadable`` (path to reason), ``ignored_files``
        (number by suffix of files that are no images), ``duplicates``, ``empty_classes``.
    """
    classes = class_order((image.class_name for image in found.images), class_names)
    task_of = task_of_classes(classes, classes_per_task, tasks=tasks, order_seed=order_seed)
    classes = tuple(task_of)  # in the order of arrival, which numbers them
    T = max(task_of.values(), default=-1) + 1
    label_of = {name: label for label, name in enumerate(classes)}
    images, names, skipped = _read_all(found.images, read_facts, workers, on_read)
    if skipped and unreadable == "stop":
        raise InputError(_all_unreadable(folder, skipped))
    if by_content:
        order = sorted(range(len(images)), key=lambda row: images[row].sha256)
        images, names = [images[row] for row in order], [names[row] for row in order]
    tally = Counter(names)
    counts = {name: tally[name] for name in classes}
    _refuse_empty(folder, counts, empty_class, found.ignored)
    contents = [image.sha256 for image in images]
    is_test = np.stack(
        [
            splits.is_test(domain, seed, names, contents, test_fraction=test_fraction)
            for seed in seeds
        ],
        axis=1,
    )
    labels = np.array([label_of[name] for name in names], np.int64)
    tested = np.stack([np.bincount(labels[test], minlength=len(classes)) for test in is_test.T])
    untested = [classes[c] for c in np.unique(labels) if not tested[:, c].all()]
    report = {
        "domain": domain,
        "made_from": "paths" if read_facts is None else "images",
        "images": len(images),
        "classes": list(classes),
        "tasks": [[name for name in classes if task_of[name] == task] for task in range(T)],
        "images_per_class": counts,
        "empty_classes": [name for name, count in counts.items() if count == 0],
        "classes_without_test_images": untested,
        "duplicates": _duplicates(images, names),
        "unreadable": skipped,
        "ignored_files": found.ignored,
    }
    return Manifest(
        images=images,
        tasks=Tasks(np.array([task_of[n] for n in names], np.int64), tuple(seeds), is_test),
        classes=[ClassRow(label_of[name], name, task_of[name]) for name in classes],
        labels=labels,
        report=report,
    )


def build_unlabelled(
    found: FoundImages,
    *,
    domain: str,
    folder: str,
    task_of: Mapping[str, int],
    seeds: Sequence[int],
    read_facts: Callable[[Path], Any] | None,
    unreadable: Literal["stop", "skip"] = "stop",
    workers: int = 0,
    by_content: bool = False,
    on_read: Callable[[], object] = lambda: None,
) -> Manifest:
    """Read every image once and lay out the manifest of a domain without labels: no task, no split, no label.

    Parameters
    ----------
    found : FoundImages
        Whatever class they name is dropped.
    task_of : mapping of str to int
        The classes that the images may have, in order; see `task_of_classes`.
    domain, folder, seeds, read_facts, unreadable, workers, by_content, on_read
        As in `build`.
    """
    images, _, skipped = _read_all(found.images, read_facts, workers, on_read)
    if skipped and unreadable == "stop":
        raise InputError(_all_unreadable(folder, skipped))
    if not images:
        others = (
            f" (but files that are no images: {listed(found.ignored)})" if found.ignored else ""
        )
        raise InputError(
            f"{folder}: no images in it{others}; is it the right folder? (domains.*.images)"
        )
    if by_content:
        images = sorted(images, key=lambda image: image.sha256)
    report = {
        "domain": domain,
        "made_from": "paths" if read_facts is None else "images",
        "images": len(images),
        "classes": list(task_of),
        "labels": "none",
        "duplicates": _duplicates(images, [""] * len(images)),
        "unreadable": skipped,
        "ignored_files": found.ignored,
    }
    none = np.zeros((0, len(seeds)), dtype=np.bool_)
    return Manifest(
        images=images,
        tasks=Tasks(np.zeros(0, np.int64), tuple(seeds), none),
        classes=[ClassRow(label, name, task_of[name]) for label, name in enumerate(task_of)],
        labels=np.zeros(0, np.int64),
        report=report,
    )


def _read_all(
    found: Sequence[LabelledImage],
    read_facts: Callable[[Path], Any] | None,
    workers: int,
    on_read: Callable[[], object],
) -> tuple[list[ImageRow], list[str], dict[str, str]]:
    """Return the rows and classes of the readable images, and the reason by path of the others."""

    def row_or_reason(image: LabelledImage) -> ImageRow | str:
        path = image.path.as_posix()
        if read_facts is None:  # the digest of the path stands in for that of the content
            return ImageRow(path, hashlib.sha256(path.encode()).hexdigest(), 0, 0)
        try:
            facts = read_facts(image.path)
        except (InputError, OSError) as error:
            return one_line(error).removeprefix(f"{path}: ")
        return ImageRow(path, facts.sha256, facts.width, facts.height)

    images: list[ImageRow] = []
    names = []
    skipped = {}
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        for image, result in zip(found, pool.map(row_or_reason, found), strict=True):
            on_read()
            if isinstance(result, str):
                skipped[image.path.as_posix()] = result
            else:
                images.append(result)
                names.append(image.class_name)
    return images, names, skipped


def _all_unreadable(folder: str, skipped: Mapping[str, str]) -> str:
    count = "1 file" if len(skipped) == 1 else f"{len(skipped)} files"
    return (
        f"{folder}: {count} cannot be read as images; mend or remove them, or leave them out with "
        "data.unreadable: skip in params.yaml"
        + "".join(f"\n  {path}: {reason}" for path, reason in skipped.items())
    )


def _refuse_empty(
    folder: str, counts: dict[str, int], empty_class: str, ignored: dict[str, int]
) -> None:
    if not any(counts.values()):
        others = f" (but files that are no images: {listed(ignored)})" if ignored else ""
        raise InputError(
            f"{folder}: no images in class folders below it{others}; is it the folder of one domain, "
            "with one folder per class? (domains.*.images)"
        )
    empty = [name for name, count in counts.items() if count == 0]
    if empty and empty_class == "stop":
        several = "classes have" if len(empty) > 1 else "class has"
        raise InputError(
            f"{folder}: {len(empty)} {several} no images: {listed(empty)}; add images, remove the "
            "name from datasets.*.class_names, or set data.empty_class: report in params.yaml"
        )


def _duplicates(images: Sequence[ImageRow], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the groups of images with the same content, those across classes flagged."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for image, name in zip(images, names, strict=True):
        groups.setdefault(image.sha256, []).append((image.path, name))
    return [
        {
            "sha256": content,
            "across_classes": len({name for _, name in group}) > 1,
            "paths": [path for path, _ in group],
        }
        for content, group in groups.items()
        if len(group) > 1
    ]
