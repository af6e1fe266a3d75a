"""Find images in tar files, which contain samples in WebDataset's format or class folders.

A WebDataset sample consists of the files with the same name up to the first dot: ``0001.jpg`` with its label in
``0001.cls`` (a number or a name) or ``0001.json`` (keys ``label``, ``domain``, ``task``). If a sample has no label
file, the folder of an image is its class.
"""

import json
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.datasets.sources.folder import is_hidden
from pipeline.datasets.sources.source import DomainSettings, FoundImages, ImageCollector
from pipeline.errors import InputError
from pipeline.image_files.read import IMAGE_SUFFIXES, unreadable
from pipeline.image_files.tar_file import members, read_member

MAX_LABEL_BYTES = 2**20  # maximum size of a label file
CLS, JSON = ".cls", ".json"


def find_in_tars(files: Sequence[Path], settings: DomainSettings) -> FoundImages:
    """Return the images in tar files, reading only headers and label files."""
    collector = ImageCollector(settings)
    for file in files:
        for key, names in _samples(members(file)).items():
            images, labels = _images_and_labels(file, key, names, collector)
            record = _read_labels(file, labels, settings) if images else {}
            if collector.is_other_domain(record.get("domain")):
                continue
            for name in images:
                path = file / name
                class_name = _class_of(path, name, record, settings) if settings.labelled else ""
                collector.add(path, class_name, record.get("task"))
    return collector.result(files[0])


def _images_and_labels(
    file: Path, key: str, names: Sequence[str], collector: ImageCollector
) -> tuple[list[str], list[str]]:
    """Return the images and the label files of one sample, and count its other files."""
    labels = [name for name in names if _extension(name) in (CLS, JSON)]
    images = [name for name in names if _suffix(name) in IMAGE_SUFFIXES]
    if labels and len(images) > 1:  # 0001.jpg beside its mask 0001.seg.png
        images = [name for name in images if _extension(name) in IMAGE_SUFFIXES]
    if labels and len(images) > 1:
        raise InputError(f"{file}: the sample {key!r} has two images, {images[0]} and {images[1]}; keep one")
    collector.ignored.update(_suffix(name) or "no suffix" for name in names if name not in (*images, *labels))
    return images, labels


def _read_labels(file: Path, names: Iterable[str], settings: DomainSettings) -> dict[str, Any]:
    """Return the label, domain and task in the label files of a sample."""
    record: dict[str, Any] = {}
    for name in names:
        data = read_member(file, name, max_bytes=MAX_LABEL_BYTES) or b""
        if _extension(name) == CLS:
            record["label"] = data
            continue
        try:
            content = json.loads(data)
        except ValueError as error:
            raise unreadable(file / name, f"is not JSON ({error})", "repair the shard") from None
        if isinstance(content, dict):
            roles = {role: settings.column(role) for role in ("label", "domain", "task")}
            record = {role: content[key] for role, key in roles.items() if key in content} | record
    return record


def _class_of(path: Path, name: str, record: Mapping[str, Any], settings: DomainSettings) -> str:
    if "label" in record:
        return settings.class_of(record["label"], str(path))
    folders = name.split("/")[:-1]
    if not folders:
        raise InputError(
            f"{path}: has no class: neither a .cls or .json of the same name in the shard, nor a class folder; "
            "add one, or set labels: none for the domain"
        )
    known = [folder for folder in folders if folder in settings.class_names]
    class_name = known[0] if known else folders[-1]
    settings.require_known(str(path), class_name)
    return class_name


def _samples(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the sorted visible members by their name up to the first dot."""
    samples: dict[str, list[str]] = {}
    for name in names:
        if not any(is_hidden(part) for part in name.split("/")):
            samples.setdefault(name.removesuffix(_extension(name)), []).append(name)
    return {key: sorted(samples[key]) for key in sorted(samples)}


def _extension(name: str) -> str:
    """Return a file name from its first dot on, which WebDataset calls the key: ``.seg.png``."""
    _, dot, extension = name.rpartition("/")[2].partition(".")
    return f"{dot}{extension}".lower()


def _suffix(name: str) -> str:
    return posixpath.splitext(name)[1].lower()  # pathlib would take as long as reading the header
