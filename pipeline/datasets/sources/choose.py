"""Detect the layout of a domain's `images`, and find the images."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline.datasets.sources.folder import find_in_folder, is_hidden, visible_folders
from pipeline.datasets.sources.source import DomainSettings, FoundImages
from pipeline.datasets.sources.table import TABLES, find_in_list, find_in_npz, find_in_tables
from pipeline.datasets.sources.tar_shards import find_in_tars
from pipeline.errors import InputError
from pipeline.image_files.read import TAR, is_shard

# by suffix of the file, or of the shards in a folder
FINDERS: dict[str, Callable[[Sequence[Path], DomainSettings], FoundImages]] = {
    ".txt": find_in_list,
    ".npz": find_in_npz,
    TAR: find_in_tars,
    **dict.fromkeys(TABLES, find_in_tables),
}


def find_in(images: Path, settings: DomainSettings | None = None) -> FoundImages:
    """Return the images of a domain without decoding them; raise InputError if the source is not usable.

    ``images`` is a folder of class folders, a folder with shards but no folders, or a file with one of the suffixes of
    `FINDERS`. Without ``settings``, images of all classes and domains are returned.
    """
    settings = settings or DomainSettings()
    files = (images,) if images.is_file() else _shards(images)
    find = FINDERS.get(files[0].suffix.lower()) if files else None
    return find(files, settings) if find else find_in_folder(images, settings)


def _shards(folder: Path) -> tuple[Path, ...]:
    """Return the sorted shards of a folder, or nothing if it has folders."""
    if not folder.is_dir() or visible_folders(folder):
        return ()
    files = [file for file in sorted(folder.iterdir()) if is_shard(file) and not is_hidden(file.name)]
    kinds = sorted({file.suffix.lower() for file in files})
    if len(kinds) > 1:
        raise InputError(f"{folder}: has both {' and '.join(kinds)} files; keep one kind of shards in a folder")
    return tuple(files)
