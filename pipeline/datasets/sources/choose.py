"""Find out what lies at `images` of a domain, and find the images there."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline.datasets.sources.folder import find_in_folder, is_hidden, visible_folders
from pipeline.datasets.sources.source import DomainSettings, FoundImages
from pipeline.datasets.sources.table import TABLES, find_in_list, find_in_npz, find_in_tables
from pipeline.datasets.sources.tar_shards import find_in_tars
from pipeline.errors import InputError
from pipeline.image_files.read import TAR, is_shard

# by the suffix of a file, or of all files in a folder of shards
FINDERS: dict[str, Callable[[Sequence[Path], DomainSettings], FoundImages]] = {
    ".txt": find_in_list,
    ".npz": find_in_npz,
    TAR: find_in_tars,
    **dict.fromkeys(TABLES, find_in_tables),
}


def find_in(images: Path, settings: DomainSettings | None = None) -> FoundImages:
    """Return the images of a domain; what is wrong with the source is an `InputError`. Nothing is decoded.

    ``images`` is a folder of class folders, a folder of shards and no folders, or a file with one of the suffixes of
    `FINDERS`. Without ``settings`` every class and every domain is taken.
    """
    settings = settings or DomainSettings()
    files = (images,) if images.is_file() else _shards(images)
    find = FINDERS.get(files[0].suffix.lower()) if files else None
    return find(files, settings) if find else find_in_folder(images, settings)


def _shards(folder: Path) -> tuple[Path, ...]:
    """Return the shards of a folder that has no folders; sorted."""
    if not folder.is_dir() or visible_folders(folder):
        return ()
    files = [file for file in sorted(folder.iterdir()) if is_shard(file) and not is_hidden(file.name)]
    kinds = sorted({file.suffix.lower() for file in files})
    if len(kinds) > 1:
        raise InputError(f"{folder}: has both {' and '.join(kinds)} files; keep one kind of shards in a folder")
    return tuple(files)
