"""Find the image files to embed, listed in a manifest or given as paths, and load their crops."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.datasets.manifest_files import ImageRow
from pipeline.datasets.sources.choose import find_in
from pipeline.datasets.sources.source import DomainSettings, require_utf8
from pipeline.encoders.image_decoding import decode, image_facts
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.errors import InputError
from pipeline.extraction.ordered_map import ordered_map, worker_count
from pipeline.image_files.read import IMAGE_SUFFIXES, file_of, is_shard

Crops = npt.NDArray[np.uint8]  # (n, h, w, 3)


@dataclass(frozen=True)
class Image:
    """An image to embed."""

    path: Path  # possibly inside a shard; see `pipeline.image_files.read`
    digest: bytes  # sha256 of the content, 32 bytes; a file that has changed since is an error


def images_of(rows: Iterable[ImageRow]) -> list[Image]:
    """Return the images of a manifest's rows, in order."""
    return [Image(Path(row.path), bytes.fromhex(row.sha256)) for row in rows]


def find_images(paths: Iterable[Path]) -> list[Path]:
    """Return the images named by ``paths``, each once: files, and all images in folders and shards."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir() or is_shard(path):
            contents = find_in(path, DomainSettings(labelled=False)).images
            if not contents:
                suffixes = " ".join(sorted(IMAGE_SUFFIXES))
                raise InputError(f"{path}: no image in this folder or shard (looked for {suffixes})")
            found += [image.path for image in contents]
        elif file_of(path).exists():
            found.append(require_utf8(path))
        else:
            raise InputError(f"{path}: no such file or folder; check the path")
    return list(dict.fromkeys(found))


def examine_images(paths: Sequence[Path], *, max_pixels: int, workers: int) -> tuple[list[Image], dict[Path, str]]:
    """Decode and hash every image once, so that all errors are known before any embedding.

    Return the readable images, in the given order, and the reasons why the others are not readable, by path.
    """

    def read(path: Path) -> Image | str:
        try:
            return Image(path, bytes.fromhex(image_facts(path, max_pixels=max_pixels).sha256))
        except InputError as error:
            return str(error)

    results = list(ordered_map(read, paths, workers=worker_count(workers)))
    unreadable = {path: reason for path, reason in zip(paths, results, strict=True) if isinstance(reason, str)}
    return [image for image in results if isinstance(image, Image)], unreadable


def load_crops(images: Iterable[Image], preprocessing: Preprocessing) -> Crops:
    """Decode images and crop them by the model's preprocessing; (n, height, width, 3) uint8."""
    decoded = (
        decode(image.path, expected_sha256=image.digest.hex(), upright=preprocessing.upright) for image in images
    )
    return np.stack([preprocessing.crop(image) for image in decoded])
