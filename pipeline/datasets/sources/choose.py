"""Find out what lies at `images` of a domain, and find the images there."""

from pathlib import Path

from pipeline.datasets.sources.folder import find_in_folder, is_hidden, visible_folders
from pipeline.datasets.sources.source import DomainSettings, FoundImages
from pipeline.datasets.sources.table import find_in_list, find_in_npz, find_in_tables
from pipeline.datasets.sources.tar_shards import find_in_tars
from pipeline.errors import InputError
from pipeline.image_files.read import PARQUET, TAR, is_shard


def find_in(images: Path, settings: DomainSettings | None = None) -> FoundImages:
    """Return the images of a domain; what is wrong with the source is an `InputError`. Nothing is decoded.

    ``images`` is a folder of class folders, a folder of .tar or .parquet files and no folders, or a file: .txt, .csv,
    .tsv, .parquet, .tar or .npz. Without ``settings`` every class and every domain is taken.
    """
    settings = settings or DomainSettings()
    files = (images,) if images.is_file() else _shards(images)
    kind = (files[0] if files else images).suffix.lower()
    if kind == ".npz":
        return find_in_npz(images, settings)
    if kind == TAR and files:
        return find_in_tars(files, settings)
    if kind in (PARQUET, ".csv", ".tsv") and files:
        return find_in_tables(files, settings)
    if kind == ".txt" and files:
        return find_in_list(images, settings)
    return find_in_folder(images, settings)


def _shards(folder: Path) -> tuple[Path, ...]:
    """Return the shards of a folder that has no folders; sorted."""
    if not folder.is_dir() or visible_folders(folder):
        return ()
    files = [file for file in sorted(folder.iterdir()) if is_shard(file) and not is_hidden(file.name)]
    kinds = sorted({file.suffix.lower() for file in files})
    if len(kinds) > 1:
        raise InputError(f"{folder}: has both {' and '.join(kinds)} files; keep one kind of shards in a folder")
    return tuple(files)
