"""Make a manifest from the images of a domain: read each once, say what was left out."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from pipeline.datasets.manifest_files import ImageRow, Manifest
from pipeline.datasets.sources.source import FoundImages, LabelledImage
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
    """Read every image once and lay out the manifest, whose ``report`` says what was left out.

    ``folder`` is what messages name, ``class_names`` are empty for the classes found. ``read_facts`` returns
    ``sha256``, ``width`` and ``height`` of an image; it is None where only paths are known. ``by_content`` orders the
    rows by sha256 instead of by path: paths are in the order of the classes, which the rows of a private domain must
    not tell. ``on_read`` is called after each image, to show progress.
    """
    images, labels, skipped = _read_all(found.images, read_facts, workers, on_read)
    classes = sorted(set(class_names) or {image.class_name for image in found.images})
    if skipped and unreadable == "stop":
        raise InputError(
            f"{folder}: {counted(len(skipped), 'file')} cannot be read as images; mend or remove, or leave out with "
            "data.unreadable: skip in params.yaml"
            + "".join(f"\n  {path}: {reason}" for path, reason in skipped.items())
        )
    if by_content:
        order = sorted(range(len(images)), key=lambda row: images[row].sha256)
        images, labels = [images[row] for row in order], [labels[row] for row in order]
    tally = Counter(labels)
    counts = {name: tally[name] for name in classes}
    empty = [name for name in classes if labelled and not tally[name]]
    _refuse_empty(folder, len(images), empty, empty_class, found.ignored)
    report = {
        "domain": domain,
        "made_from": "paths" if read_facts is None else "images",
        "images": len(images),
        "classes": classes,
        **({"images_per_class": counts} if labelled else {"labels": "none"}),
        "empty_classes": [name for name in classes if not counts[name]],
        "duplicates": _duplicates(images, labels),
        "unreadable": skipped,
        "ignored_files": found.ignored,
    }
    return Manifest(images, labels if labelled else [], classes, report, found.tasks())


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


def _refuse_empty(folder: str, images: int, empty: Sequence[str], empty_class: str, ignored: dict[str, int]) -> None:
    if not images:
        others = f" (but files that are no images: {listed(ignored)})" if ignored else ""
        raise InputError(
            f"{folder}: no images in it, or in class folders below it{others}; is it the folder of one domain, "
            "with one folder per class? (domains.*.images)"
        )
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
