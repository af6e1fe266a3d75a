"""Find images in class folders, or unlabelled images in any folder.

============================  ====================================================
``domain/class/image``        Office-Home, VisDA, DomainNet, digits, your own photos
``domain/images/class/image``  Office-31
============================  ====================================================
"""

import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath

from pipeline.datasets.sources.source import DomainSettings, FoundImages, ImageCollector
from pipeline.errors import InputError
from pipeline.image_files.read import IMAGE_SUFFIXES

_NOT_CLASSES = {"__MACOSX"}


def find_in_folder(folder: Path, settings: DomainSettings) -> FoundImages:
    """Return the images at any depth in class folders, or in any folder if the domain is unlabelled.

    Images beside the class folders have no class and are left out.
    """
    if not folder.is_dir():
        problem = "is not a source of images" if folder.exists() else "no such file or folder"
        raise InputError(f"{folder}: {problem}; put the images there, or correct domains.*.images")
    collector = ImageCollector(settings)
    if not settings.labelled:
        classes = {folder: ""}
    else:
        classes = {child: child.name for child in class_folders(folder, settings.class_names)}
    for child, name in classes.items():
        for path in _images_below(child, (child.resolve(),), collector.ignored):
            if name:
                settings.require_known(str(child), name)
            collector.add(path, name)
    return collector.result(folder, [name for name in classes.values() if name])


def is_hidden(name: str) -> bool:
    """Return whether a file or folder is hidden and not part of a dataset."""
    return name.startswith(".") or name in _NOT_CLASSES


def visible_folders(folder: Path) -> list[Path]:
    """Return the sorted subfolders that may be classes; [] if ``folder`` is not a folder."""
    if not folder.is_dir():
        return []
    return sorted(child for child in folder.iterdir() if child.is_dir() and not is_hidden(child.name))


def class_folders(folder: Path, class_names: Sequence[str]) -> list[Path]:
    """Return the class folders of a domain, below `images` if that is the only folder and not a class."""
    children = visible_folders(folder)
    if [child.name for child in children] == ["images"] and "images" not in class_names:
        return visible_folders(children[0])
    return children


def _images_below(folder: Path, ancestors: tuple[Path, ...], ignored: Counter[str]) -> Iterator[Path]:
    """Yield image files at any depth, following links but not cycles of links."""
    with os.scandir(folder) as children:  # needs no system call per file to tell files from folders
        for child in children:
            suffix = PurePath(child.name).suffix.lower()
            if is_hidden(child.name):
                continue
            if suffix in IMAGE_SUFFIXES and child.is_file():
                yield folder / child.name
            elif child.is_dir():
                resolved = Path(child.path).resolve()
                if resolved not in ancestors:
                    yield from _images_below(Path(child.path), (*ancestors, resolved), ignored)
            else:
                ignored[suffix or "no suffix"] += 1


def require_same_classes(current: str, folders: Iterable[str], dataset: str) -> None:
    """Raise InputError if a class folder is missing in one of a dataset's domains, before hours of extraction.

    ``current`` is the folder of the current domain, ``folders`` are those of all domains of the dataset.
    """
    classes = {folder: {child.name for child in class_folders(Path(folder), ())} for folder in folders}
    for folder, names in classes.items():
        unmatched = sorted(names ^ classes[current]) if names and classes[current] else []
        if unmatched:
            lacks, has = (current, folder) if unmatched[0] in names else (folder, current)
            twin = next((name for name in classes[lacks] if _letters(name) == _letters(unmatched[0])), None)
            if twin:
                raise InputError(
                    f"{lacks}/{twin}: is called {unmatched[0]!r} in {has}, in other capitals or other characters for "
                    "the same letters (ä as one or as two); give both folders one name"
                )
            raise InputError(
                f"{lacks}: has no class folder {unmatched[0]!r}, but {has} has; add it here, remove it there, or "
                f"name all classes in datasets.{dataset}.class_names and set data.empty_class: report"
            )


def _letters(name: str) -> str:
    """Normalize a name for comparison: macOS writes ä as two characters, Linux as one."""
    return unicodedata.normalize("NFKC", name).casefold()
