"""Find the labelled images of a domain, in the layouts in which datasets are downloaded.

==================================  ==========================================================
``domain/class/image``              Office-Home, VisDA, DomainNet, digits, your own photos
``domain/images/class/image``       Office-31
``path label`` lines in a file      VisDA's ``image_list.txt``, DomainNet's ``clipart_train.txt``
``paths`` in an .npz                imported embeddings without images: DOMAIN/CLASS/FILE
==================================  ==========================================================

A new layout is one more function here that returns `FoundImages`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from pipeline.array_files import is_domain, read_paths
from pipeline.datasets.image_lists import ListEntry, read_image_list
from pipeline.errors import InputError, did_you_mean, listed

_NOT_CLASSES = {"__MACOSX"}


class LabelledImage(NamedTuple):
    """An image file and the folder name of its class."""

    path: Path
    class_name: str


class FoundImages(NamedTuple):
    """The images of a domain, sorted by path, and what was left out."""

    images: list[LabelledImage]
    ignored: dict[str, int]  # visible files in class folders that are no images: {".heic": 3}


def find_images(
    folder: Path,
    *,
    suffixes: Collection[str],
    lists: Sequence[tuple[Path, Path]] = (),
    class_names: Sequence[str] = (),
) -> FoundImages:
    """Find the images of a domain in its folder.

    Parameters
    ----------
    folder : Path
        The domain's folder. Every image in a class folder belongs to that class, at any depth;
        images beside the class folders have no class and are left out. Not looked at with ``lists``.
    suffixes : collection of str
        Suffixes of image files, in lower case with the dot.
    lists : sequence of (Path, Path), optional
        Image lists and the root of the paths in each. With lists, exactly the listed images.
    class_names : sequence of str, optional
        The only classes, in the order of the lists' label numbers. Any class if omitted.
    """
    if not lists:
        _require_folder(folder)
    ignored: Counter[str] = Counter()
    if lists:
        entries = (
            _listed(file, root, entry, suffixes=suffixes, class_names=class_names)
            for file, root in lists
            for entry in read_image_list(file)
        )
        found = list(dict.fromkeys(entries))  # train and test lists may overlap
        _refuse_two_classes(found)
    else:
        found = list(_in_class_folders(folder, suffixes, class_names, ignored))
    found.sort(key=lambda image: image.path.as_posix())
    return FoundImages(found, dict(sorted(ignored.items())))


def unlabelled_images(folder: Path, suffixes: Collection[str]) -> FoundImages:
    """Find all images of a folder at any depth, of no class; see `find_images`."""
    _require_folder(folder)
    ignored: Counter[str] = Counter()
    found = _images_below(folder, suffixes, (folder.resolve(),), ignored)
    images = [LabelledImage(path, "") for path in sorted(found, key=Path.as_posix)]
    return FoundImages(images, dict(sorted(ignored.items())))


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "no such folder"
        raise InputError(
            f"{folder}: {problem}; download the dataset there, or correct domains.*.images; "
            "`referee doctor` shows what is missing"
        )


def npz_paths(file: Path, domain: str, *, class_names: Sequence[str] = ()) -> FoundImages:
    """Return the images of a domain that the array ``paths`` of an .npz names; none is opened.

    Paths read DOMAIN/CLASS/FILE; those of other domains are left out.
    """
    paths = read_paths(file)
    if paths is None:
        raise InputError(f"{file}: has no array 'paths'; add one of DOMAIN/CLASS/FILE strings")
    found = []
    for text in paths:
        parts = PurePosixPath(text).parts
        if is_domain(parts[0], domain):
            _require_known(f"{file}: paths: {text!r}", parts[1], class_names)
            found.append(LabelledImage(Path(text), parts[1]))
    if not found:
        domains = {PurePosixPath(text).parts[0] for text in paths}
        raise InputError(
            f"{file}: paths: none begins with {domain}/ (there are: {listed(sorted(domains))}); "
            "the domain's key in suite.yaml must be the DOMAIN of its paths"
        )
    twice = [image for image, count in Counter(found).items() if count > 1]
    if twice:
        raise InputError(f"{file}: paths: {twice[0].path.as_posix()!r} is there twice")
    return FoundImages(sorted(found, key=lambda image: image.path.as_posix()), {})


def images_in(folder: Path, suffixes: Collection[str]) -> list[Path]:
    """Return all visible image files of a folder at any depth, whatever their class; sorted."""
    return sorted(_images_below(folder, suffixes, (folder.resolve(),), Counter()))


def class_folders(folder: Path) -> list[str]:
    """Return the names of a domain's class folders, those without images too; sorted."""
    return [child.name for child in _class_folders(folder, ())] if folder.is_dir() else []


def require_text(path: Path) -> Path:
    """Return ``path``, or refuse it where its name is not UTF-8: no CSV file could hold it."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        shown = str(path).encode("utf-8", "backslashreplace").decode()
        raise InputError(f"{shown}: this name is not UTF-8; rename the file or folder") from None
    return path


def _in_class_folders(
    folder: Path, suffixes: Collection[str], class_names: Sequence[str], ignored: Counter[str]
) -> Iterator[LabelledImage]:
    for child in _class_folders(folder, class_names):
        paths = list(_images_below(child, suffixes, (child.resolve(),), ignored))
        if paths:
            _require_known(str(child), child.name, class_names)
        for path in paths:
            yield LabelledImage(path, child.name)


def _require_known(where: str, class_name: str, class_names: Sequence[str]) -> None:
    if class_names and class_name not in class_names:
        raise InputError(
            f"{where}: {class_name!r} is not a class of this dataset (datasets.*.class_names)"
            f"{did_you_mean(class_name, class_names)}"
        )


def _class_folders(folder: Path, class_names: Sequence[str]) -> list[Path]:
    children = _visible_folders(folder)
    if [child.name for child in children] == ["images"] and "images" not in class_names:
        return _visible_folders(children[0])
    return children


def _visible_folders(folder: Path) -> list[Path]:
    return sorted(
        child for child in folder.iterdir() if child.is_dir() and not _is_hidden(child.name)
    )


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in _NOT_CLASSES


def _images_below(
    folder: Path, suffixes: Collection[str], ancestors: tuple[Path, ...], ignored: Counter[str]
) -> Iterator[Path]:
    """Yield image files at any depth; links are followed, but never in a circle."""
    with os.scandir(folder) as children:  # knows files from folders without a call for each
        for child in children:
            suffix = PurePath(child.name).suffix.lower()
            if _is_hidden(child.name):
                continue
            if suffix in suffixes and child.is_file():
                yield require_text(folder / child.name)
            elif child.is_dir():
                resolved = Path(child.path).resolve()
                if resolved not in ancestors:
                    below = (*ancestors, resolved)
                    yield from _images_below(Path(child.path), suffixes, below, ignored)
            else:
                ignored[suffix or "no suffix"] += 1


def _listed(
    file: Path,
    root: Path,
    entry: ListEntry,
    *,
    suffixes: Collection[str],
    class_names: Sequence[str],
) -> LabelledImage:
    """Return the image of one line of a list, which must be an image file."""
    path = root / entry.path
    where = f"{file}: line {entry.line}: {entry.path}"
    if path.suffix.lower() not in suffixes:
        raise InputError(f"{where}: not an image ({listed(sorted(suffixes))})")
    if not path.is_file():
        raise InputError(f"{where}: no such file in {root} (lists.*.root)")
    return LabelledImage(path, _class_of(entry, where, class_names))


def _class_of(entry: ListEntry, where: str, class_names: Sequence[str]) -> str:
    """Return the class of a listed image: its parent folder where that is one, else by its number.

    The folder goes first because DomainNet numbers its classes in an order of its own (capitals
    and hyphens ignored); the number is for folders that are no classes: VisDA's ``test/trunc07``.
    """
    if class_names and entry.label >= len(class_names):
        raise InputError(
            f"{where}: label {entry.label} is out of range; the dataset has {len(class_names)} "
            f"classes, 0 to {len(class_names) - 1}"
        )
    parent = entry.path.parent.name
    if class_names and parent not in class_names:
        return class_names[entry.label]
    if not parent:
        raise InputError(
            f"{where}: has no class folder; name the classes in datasets.*.class_names, "
            "in the order of the list's labels"
        )
    return parent


def _refuse_two_classes(images: Sequence[LabelledImage]) -> None:
    classes: dict[Path, str] = {}
    for path, class_name in images:
        if classes.setdefault(path, class_name) != class_name:
            raise InputError(f"{path}: listed in two classes, {classes[path]} and {class_name}")
