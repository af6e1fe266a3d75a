"""Small manifests for tests: images that are never on disk."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from pipeline.datasets.manifest import build
from pipeline.datasets.sources.source import FoundImages, LabelledImage
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
    """Return images data/d/CLASS/FILE of the files given by class."""
    found = [
        LabelledImage(Path(f"data/d/{name}/{file}"), name)
        for name, files in sorted(classes.items())
        for file in sorted(files)
    ]
    return FoundImages(found, {})


TWO_CLASSES = images(a=[f"a{i}.png" for i in range(10)], b=[f"b{i}.png" for i in range(5)])


def build_manifest(found=TWO_CLASSES, **changes):
    settings = {
        "domain": "d",
        "folder": "data/d",
        "class_names": (),
        "classes_per_task": 1,
        "seeds": (0, 7),
        "test_fraction": 0.1,
        "read_facts": facts,
        "workers": 2,
    }
    return build(found, **(settings | changes))
