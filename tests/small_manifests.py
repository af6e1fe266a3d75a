"""Create small manifests of images that do not exist on disk."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from pipeline.datasets.kept_order import order_of_arrival
from pipeline.datasets.manifest import build
from pipeline.datasets.manifest_files import write_manifest
from pipeline.datasets.sources.source import FoundImages, LabelledImage
from pipeline.datasets.task_files import write_tasks
from pipeline.datasets.tasks import arrange
from pipeline.errors import InputError


class Facts(NamedTuple):
    sha256: str
    width: int
    height: int


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def facts(path):
    if "bad" in path.name:
        raise InputError(f"{path}: truncated")
    return Facts(sha256(path.name), 4, 3)


def images(**classes):
    """Return images data/d/CLASS/FILE, given the files of each class."""
    labelled = [
        LabelledImage(Path(f"data/d/{name}/{file}"), name)
        for name, files in sorted(classes.items())
        for file in sorted(files)
    ]
    return FoundImages(labelled, {})


TWO_CLASSES = images(a=[f"a{i}.png" for i in range(10)], b=[f"b{i}.png" for i in range(5)])


def build_manifest(found=TWO_CLASSES, **changes):
    settings = {"domain": "d", "folder": "data/d", "class_names": (), "read_facts": facts, "workers": 2}
    return build(found, **(settings | changes))


def arranged(manifest, **changes):
    """Return the classes and tasks of a manifest."""
    settings = {"classes_per_task": 1, "seeds": (0, 7), "test_fraction": 0.1} | changes
    order = order_of_arrival(manifest.class_names, classes_per_task=settings.pop("classes_per_task"))
    contents = [image.sha256 for image in manifest.images]
    return arrange("d", order, manifest.labels, contents, **settings)


def write_all(folder, found=TWO_CLASSES, *, private=False, arrangement=(), **changes):
    """Write all files of the stages `manifest` and `tasks`; return the manifest, its classes and its tasks."""
    manifest = build_manifest(found, **changes)
    classes, tasks = arranged(manifest, **dict(arrangement))
    write_manifest(manifest, folder, private=private)
    write_tasks(tasks, classes, folder)
    return manifest, classes, tasks
