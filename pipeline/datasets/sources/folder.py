"""Images in class folders, and images of no class in any folder.

============================  ====================================================
``domain/class/image``        Office-Home, VisDA, DomainNet, digits, your own photos
``domain/images/class/image``  Office-31
============================  ====================================================
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import ClassVar

from pipeline.datasets.sources.source import ANY_DOMAIN, Collected, DomainSettings, FoundImages, require_text
from pipeline.errors import InputError
from pipeline.image_files.read import IMAGE_SUFFIXES

_NOT_CLASSES = {"__MACOSX"}


@dataclass(frozen=True)
class Folder:
    """A folder. Every image in a class folder belongs to that class, at any depth.

    Images beside the class folders have no class and are left out. Of a domain without labels, all images at any depth.
    """

    folder: Path
    settings: DomainSettings = ANY_DOMAIN
    has_bytes: ClassVar[bool] = True

    def find(self) -> FoundImages:
        """Return the images; see `ImageSource`."""
        if not self.folder.is_dir():
            problem = "is no source of images" if self.folder.exists() else "no such file or folder"
            raise InputError(
                f"{self.folder}: {problem}; download the dataset there, or correct domains.*.images; "
                "`referee doctor` shows what is missing"
            )
        collected = Collected(self.settings)
        if not self.settings.labelled:
            for path in _images_below(self.folder, (self.folder.resolve(),), collected.ignored):
                collected.add(path, "")
            return collected.found(self.folder)
        classes = class_folders(self.folder, self.settings.class_names)
        for child in classes:
            paths = list(_images_below(child, (child.resolve(),), collected.ignored))
            if paths:
                self.settings.require_known(str(child), child.name)
            for path in paths:
                collected.add(path, child.name)
        return collected.found(self.folder, [child.name for child in classes])


def is_hidden(name: str) -> bool:
    """Tell whether a file or folder is one that people do not see as part of a dataset."""
    return name.startswith(".") or name in _NOT_CLASSES


def visible_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder that may be classes; sorted."""
    return sorted(child for child in folder.iterdir() if child.is_dir() and not is_hidden(child.name))


def class_folders(folder: Path, class_names: Sequence[str]) -> list[Path]:
    """Return the class folders of a domain's folder; ``class_names`` says whether `images` may be one of them."""
    children = visible_folders(folder)
    if [child.name for child in children] == ["images"] and "images" not in class_names:
        return visible_folders(children[0])
    return children


def _images_below(folder: Path, ancestors: tuple[Path, ...], ignored: Counter[str]) -> Iterator[Path]:
    """Yield image files at any depth; links are followed, but never in a circle."""
    with os.scandir(folder) as children:  # knows files from folders without a call for each
        for child in children:
            suffix = PurePath(child.name).suffix.lower()
            if is_hidden(child.name):
                continue
            if suffix in IMAGE_SUFFIXES and child.is_file():
                yield require_text(folder / child.name)
            elif child.is_dir():
                resolved = Path(child.path).resolve()
                if resolved not in ancestors:
                    yield from _images_below(Path(child.path), (*ancestors, resolved), ignored)
            else:
                ignored[suffix or "no suffix"] += 1
