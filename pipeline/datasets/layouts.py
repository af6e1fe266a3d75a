"""Find the labelled images of a domain, in the layouts that datasets are downloaded in.

==================================  ==========================================================
``domain/class/image``              Office-Home, VisDA, DomainNet, digits, anyone's own
``domain/images/class/image``       Office-31
``path label`` lines in a file      VisDA's ``image_list.txt``, DomainNet's ``clipart_train.txt``
``paths`` in an .npz                features computed elsewhere, images absent: DOMAIN/CLASS/FILE
==================================  ==========================================================
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from pipeline.array_files import is_domain, read_paths
from pipeline.datasets.image_lists import read_image_list
from pipeline.errors import InputError, did_you_mean, listed

_NOT_CLASSES = {"__MACOSX"}


class LabelledImage(NamedTuple):
    """An image and the folder name of its class."""

    path: Path
    class_name: str


def find_images(
    folder: Path,
    *,
    suffixes: Collection[str],
    lists: Sequence[tuple[Path, Path]] = (),
    class_names: Sequence[str] = (),
) -> list[LabelledImage]:
    """Return the images of a domain, sorted by path.

    ``suffixes`` are those of image files, in lower case with the dot. With ``lists``, pairs of a
    list and the root of the paths in it, exactly the listed images; otherwise every image in a
    class folder, at any depth. Images beside the class folders have no class and are left out.
    ``class_names`` (in the order of the lists' label numbers) are the only classes; empty: any.
    """
    if not folder.is_dir():
        is_what = "is not a folder" if folder.exists() else "no such folder"
        raise InputError(
            f"{folder}: {is_what}; download the dataset there, or name its place in params.yaml "
            "(domains.*.images); `referee doctor` shows what is missing"
        )
    if lists:
        listed_twice = (
            image
            for file, root in lists
            for image in _listed(file, root, folder, suffixes, class_names)
        )
        found = list(dict.fromkeys(listed_twice))  # train and test lists may overlap
    else:
        found = list(_in_class_folders(folder, suffixes, class_names))
    _refuse_two_classes(found)
    return sorted(found, key=lambda image: image.path.as_posix())


def _in_class_folders(
    folder: Path, suffixes: Collection[str], class_names: Sequence[str]
) -> Iterator[LabelledImage]:
    for child in _class_folders(folder, class_names):
        images = list(_images_below(child, suffixes, (child.resolve(),)))
        if images and class_names and child.name not in class_names:
            raise InputError(
                f"{child}: {child.name!r} is not a class of this dataset (datasets.*.class_names)"
                f"{did_you_mean(child.name, class_names)}"
            )
        for path in images:
            yield LabelledImage(path, child.name)


def images_in(folder: Path, suffixes: Collection[str]) -> list[Path]:
    """Return all image files of a folder at any depth, whatever their class; hidden ones left out; sorted."""
    return sorted(_images_below(folder, suffixes, (folder.resolve(),)))


def class_folders(folder: Path) -> list[str]:
    """Return the names of a domain's class folders, those without images too; sorted."""
    return [child.name for child in _class_folders(folder, ())] if folder.is_dir() else []


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
    folder: Path, suffixes: Collection[str], ancestors: tuple[Path, ...]
) -> Iterator[Path]:
    """Yield image files at any depth; links are followed, but never in a circle."""
    with os.scandir(folder) as children:  # knows files from folders without asking for each
        for child in children:
            if _is_hidden(child.name):
                continue
            if PurePath(child.name).suffix.lower() in suffixes and child.is_file():
                yield writable(folder / child.name)
            elif child.is_dir():
                resolved = Path(child.path).resolve()
                if resolved not in ancestors:
                    yield from _images_below(Path(child.path), suffixes, (*ancestors, resolved))


def writable(path: Path) -> Path:
    """Refuse a path that is not text: no manifest or table could hold it."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        shown = str(path).encode("utf-8", "backslashreplace").decode()
        raise InputError(f"{shown}: this name is not UTF-8; rename the file or folder") from None
    return path


def _listed(
    file: Path,
    root: Path,
    folder: Path,
    suffixes: Collection[str],
    class_names: Sequence[str],
) -> Iterator[LabelledImage]:
    for entry in read_image_list(file):
        path = root / entry.path
        where = f"{file}: line {entry.line}: {entry.path}"
        if path.suffix.lower() not in suffixes:
            raise InputError(f"{where}: not an image ({listed(sorted(suffixes))})")
        if not path.is_relative_to(folder):
            raise InputError(
                f"{where}: is not in {folder}, the folder of this domain's images; "
                "correct lists.*.root, or choose the list of this domain"
            )
        if not path.is_file():
            raise InputError(f"{where}: no such file in {root} (lists.*.root)")
        yield LabelledImage(path, _class_of(entry.path, entry.label, where, class_names))


def _class_of(path: PurePosixPath, label: int, where: str, class_names: Sequence[str]) -> str:
    """Return the class of a listed image: its parent folder where that is one, else by its number.

    The folder goes first because DomainNet numbers its classes in an order of its own (capitals
    and hyphens ignored); the number is for folders that are no classes: VisDA's ``test/trunc07``.
    """
    if class_names and not 0 <= label < len(class_names):
        raise InputError(
            f"{where}: label {label} is out of range; the dataset has {len(class_names)} classes, "
            f"0 to {len(class_names) - 1}"
        )
    parent = path.parent.name
    if class_names and parent not in class_names:
        return class_names[label]
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


def npz_paths(file: Path, domain: str, *, class_names: Sequence[str] = ()) -> list[LabelledImage]:
    """Return the images named by the array ``paths`` of an .npz, sorted by path; none is opened.

    Paths read DOMAIN/CLASS/FILE; those of other domains are left out.
    """
    paths = read_paths(file)
    if paths is None:
        raise InputError(f"{file}: has no array 'paths'; add one of DOMAIN/CLASS/FILE strings")
    found = []
    for text in paths:
        parts = PurePosixPath(text).parts
        if not is_domain(parts[0], domain):
            continue
        if class_names and parts[1] not in class_names:
            raise InputError(
                f"{file}: paths: {text!r}: {parts[1]!r} is not a class of this dataset "
                f"(datasets.*.class_names){did_you_mean(parts[1], class_names)}"
            )
        found.append(LabelledImage(Path(text), parts[1]))
    if not found:
        domains = {PurePosixPath(text).parts[0] for text in paths}
        raise InputError(
            f"{file}: paths: none begins with {domain}/ (there are: {listed(sorted(domains))}); "
            "the domain's key in params.yaml must be the DOMAIN of its paths"
        )
    twice = [path for path, count in Counter(found).items() if count > 1]
    if twice:
        raise InputError(f"{file}: paths: {twice[0].path.as_posix()!r} is there twice")
    return sorted(found, key=lambda image: image.path.as_posix())
