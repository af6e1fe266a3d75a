"""Find out what lies at `images` of a domain."""

from __future__ import annotations

from pathlib import Path

from pipeline.datasets.sources.folder import Folder, is_hidden, visible_folders
from pipeline.datasets.sources.npz_paths import NpzPaths
from pipeline.datasets.sources.source import ANY_DOMAIN, DomainSettings, ImageSource
from pipeline.datasets.sources.table import Table
from pipeline.datasets.sources.tar_shards import TarShards
from pipeline.datasets.sources.text_list import TextList
from pipeline.errors import InputError
from pipeline.image_files.read import PARQUET, TAR


def open_source(images: Path, settings: DomainSettings = ANY_DOMAIN) -> ImageSource:
    """Return the source of a domain's images.

    Parameters
    ----------
    images : Path
        A folder of class folders; a folder of .tar or .parquet files and no folders; or a file: .txt, .csv, .tsv,
        .parquet, .tar or .npz.
    settings : DomainSettings
    """
    files = (images,) if images.is_file() else _shards(images)
    kind = files[0].suffix.lower() if files else images.suffix.lower()
    if kind == ".npz":
        return NpzPaths(images, settings)
    if kind == TAR and files:
        return TarShards(files, settings)
    if kind in (PARQUET, ".csv", ".tsv") and files:
        return Table(files, settings)
    if kind == ".txt" and files:
        return TextList(images, settings)
    return Folder(images, settings)


def _shards(folder: Path) -> tuple[Path, ...]:
    """Return the shards of a folder that has no folders; sorted."""
    if not folder.is_dir() or visible_folders(folder):
        return ()
    files = [
        file for file in sorted(folder.iterdir()) if file.suffix.lower() in (TAR, PARQUET) and not is_hidden(file.name)
    ]
    if len({file.suffix.lower() for file in files}) > 1:
        raise InputError(f"{folder}: has both {TAR} and {PARQUET} files; keep one kind of shards in a folder")
    return tuple(files)
