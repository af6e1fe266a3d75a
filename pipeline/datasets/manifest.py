"""Build a domain's manifest: read each image once and report what was left out."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from pipeline.datasets.manifest_files import ImageRow, Manifest
from pipeline.datasets.sources.source import FoundImages
from pipeline.errors import InputError, counted, listed, one_line


def build(
    found: FoundImages,
    *,
    domain: str,
    folder: str,
    class_names: Iterable[str],
    labelled: bool = True,
    read_facts: Callable[[Path], Any] | None,
    unreadable: Literal["stop", "skip"] = "stop",
    empty_class: Literal["stop", "report"] = "stop",
    workers: int = 0,
    by_content: bool = False,
    on_read: Callable[[], object] = lambda: None,
) -> Manifest:
    """Read every image once and return the manifest, whose ``report`` lists what was left out.

    ``folder`` is named in messages. Without ``class_names``, the classes are those found. ``read_facts`` returns the
    ``sha256``, ``width`` and ``height`` of an image; it is None if only paths are known. ``by_content`` orders the rows
    by sha256 instead of by path, because the order of the paths would reveal the classes of a private domain.
    ``on_read`` is called after each image, to show progress.
    """

    def row_or_reason(path: Path) -> ImageRow | str:
        name = path.as_posix()
        if read_facts is None:  # use the digest of the path instead
            return ImageRow(name, hashlib.sha256(name.encode()).hexdigest(), 0, 0)
        try:
            facts = read_facts(path)
        except (InputError, OSError) as error:
            return one_line(error).removeprefix(f"{name}: ")
        return ImageRow(name, facts.sha256, facts.width, facts.height)

    rows: list[tuple[ImageRow, str]] = []  # image and class
    skipped = {}
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        results = pool.map(row_or_reason, (image.path for image in found.images))
        for image, result in zip(found.images, results, strict=True):
            on_read()
            if isinstance(result, str):
                skipped[image.path.as_posix()] = result
            else:
                rows.append((result, image.class_name))
    if skipped and unreadable == "stop":
        raise InputError(
            f"{folder}: {counted(len(skipped), 'file')} cannot be read as images; repair, remove or skip them: "
            "data.unreadable: skip in params.yaml"
            + "".join(f"\n  {path}: {reason}" for path, reason in skipped.items())
        )
    if not rows:
        ignored = f" (but other files: {listed(found.ignored)})" if found.ignored else ""
        raise InputError(
            f"{folder}: no images in it, or in class folders below it{ignored}; is it the folder of one domain, "
            "with one folder per class? (domains.*.images)"
        )
    if by_content:
        rows.sort(key=lambda row: row[0].sha256)
    tally = Counter(name for _, name in rows)
    classes = sorted(class_names) or found.class_names()
    empty = [name for name in classes if not tally[name]]
    if labelled and empty and empty_class == "stop":
        subject = "classes have" if len(empty) > 1 else "class has"
        raise InputError(
            f"{folder}: {len(empty)} {subject} no images: {listed(empty)}; add images, remove the "
            "name from datasets.*.class_names, or set data.empty_class: report in params.yaml"
        )
    report = {
        "domain": domain,
        "made_from": "paths" if read_facts is None else "images",
        "images": len(rows),
        "classes": classes,
        **({"images_per_class": {name: tally[name] for name in classes}} if labelled else {"labels": "none"}),
        "empty_classes": empty,
        "duplicates": _duplicates(rows),
        "unreadable": skipped,
        "ignored_files": found.ignored,
    }
    labels = [name for _, name in rows] if labelled else []
    return Manifest([image for image, _ in rows], labels, classes, report, found.tasks())


def _duplicates(rows: Iterable[tuple[ImageRow, str]]) -> list[dict[str, Any]]:
    """Return the groups of images with equal content, and whether a group spans several classes."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for image, name in rows:
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
