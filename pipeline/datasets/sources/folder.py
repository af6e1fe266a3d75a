"""Images in class folders, and images of no class in any folder.

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

from pipeline.datasets.sources.source import Collected, DomainSettings, FoundImages
from pipeline.errors import InputError
from pipeline.image_files.read import IMAGE_SUFFIXES

_NOT_CLASSES = {"__MACOSX"}


def find_in_folder(folder: Path, settings: DomainSettings) -> FoundImages:
    """Return the images in class folders, at any depth; of a domain without labels, all images.

    Images beside the class folders have no class and are left out.
    """
    if not folder.is_dir():
        problem = "is no source of images" if folder.exists() else "no such file or folder"
        raise InputError(f"{folder}: {problem}; put the images there, or correct domains.*.images")
    collected = Collected(settings)
    if not settings.labelled:
        classes = {folder: ""}
    else:
        classes = {child: child.name for child in class_folders(folder, settings.class_names)}
    for child, name in classes.items():
        for path in _images_below(child, (child.resolve(),), collected.ignored):
            if name:
                settings.require_known(str(child), name)
            collected.add(path, name)
    return collected.found(folder, [name for name in classes.values() if name])


def is_hidden(name: str) -> bool:
    """Tell whether a file or folder is one that people do not see as part of a dataset."""
    return name.startswith(".") or name in _NOT_CLASSES


def visible_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder that may be classes, sorted; none where it is something else."""
    if not folder.is_dir():
        return []
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
                yield folder / child.name
            elif child.is_dir():
                resolved = Path(child.path).resolve()
                if resolved not in ancestors:
                    yield from _images_below(Path(child.path), (*ancestors, resolved), ignored)
            else:
                ignored[suffix or "no suffix"] += 1


def require_same_classes(own: str, folders: Iterable[str], dataset: str) -> None:
    """Refuse a class that only some of a dataset's folders of class folders have: before hours of extraction.

    ``own`` is the folder of the domain that is looked at, ``folders`` are those of all domains of the dataset.
    """
    classes = {folder: {child.name for child in class_folders(Path(folder), ())} for folder in folders}
    for folder, names in classes.items():
        only_one = sorted(names ^ classes[own]) if names and classes[own] else []
        if only_one:
            lacks, has = (own, folder) if only_one[0] in names else (folder, own)
            twin = next((name for name in classes[lacks] if _letters(name) == _letters(only_one[0])), None)
            if twin:
                raise InputError(
                    f"{lacks}/{twin}: is called {only_one[0]!r} in {has}, in other capitals or other characters for "
                    "the same letters (ä as one or as two); give both folders one name"
                )
            raise InputError(
                f"{lacks}: has no class folder {only_one[0]!r}, but {has} has; add it here, take it away there, or "
                f"name all classes in datasets.{dataset}.class_names and set data.empty_class: report"
            )


def _letters(name: str) -> str:
    """Return a name as people read it: macOS writes ä as two characters, Linux as one."""
    return unicodedata.normalize("NFKC", name).casefold()
