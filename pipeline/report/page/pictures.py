"""Read the pictures of a problem: thumbnails of mistakes and the views of a few images.

The report does not depend on images: without them, the page has a sentence in place of the pictures.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pandas import DataFrame
from PIL import Image

from pipeline import paths
from pipeline.encoders.image_decoding import decode
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.errors import RefereeError
from pipeline.method.views import VIEW_INFO
from pipeline.write_aside import write_aside

THUMBNAIL, VIEW = 128, 168  # longer side in pixels
LOSSLESS = 64  # longer side in pixels up to which a PNG is small enough; scans of digits stay sharp
QUALITY = 82  # of WebP
HALF = (0.5, 0.5, 0.5)
# in place of the unknown preprocessing of imported features
CROP = Preprocessing(224, 224, 0.875, resize_mode="shortest", interpolation="bicubic", mean=HALF, std=HALF)


@dataclass(frozen=True)
class ProblemPictures:
    """The pictures of a problem, as keys into the page's album."""

    mistakes: Mapping[str, str] = field(default_factory=dict)  # image path -> key
    views: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # image path -> view -> key
    missing: str = ""  # shown in place of pictures: why there are none and how to get them
    views_note: str = ""  # what the views show and how they were made


def read_pictures(
    shown: DataFrame,
    target: str,
    album: dict[str, str],
    *,
    images: str,
    preprocessing: Preprocessing | None,
    views: Sequence[str],
    settings: Mapping[str, Any],
    max_pixels: int,
    code: str | None = None,
) -> ProblemPictures:
    """Read the pictures of a problem into the album, skipping images that are absent or damaged.

    ``shown`` is the problem's table of that name; ``images`` and ``views`` come from the target's entry in suite.yaml;
    ``settings`` are the fields of `ViewSettings`; ``preprocessing`` is None if the features were imported. If ``code``,
    the fingerprint of the report's code, is given, views are cached until it changes: importing torch takes a second.
    """
    crop = preprocessing or CROP
    mistakes: dict[str, str] = {}
    viewed: dict[str, Mapping[str, str]] = {}
    for row in shown.to_dict("records"):
        path, digest = row["path"], row["sha256"]
        image = image_of_row(images, path, max_pixels, upright=crop.upright)
        if image is None:
            continue
        if row["role"] == "mistake":
            mistakes[path] = add_picture(album, np.asarray(image), THUMBNAIL)
        else:
            make = partial(_views_text, crop.crop(image), digest, settings, views)
            viewed[path], pictures = json.loads(
                cached_text((digest, crop, settings, views, code), make) if code else make()
            )
            album |= pictures
    folder = f"{Path(images).parent.as_posix()}/images" if images.endswith(".npz") else images
    missing = (
        f"No pictures: the images of {target} are not on this machine. Put them at {folder} and run "
        "dvc repro --force --single-item report."
    )
    recipe = "{wavelet}, level {level}, noise {noise}".format(**settings)
    note = f"The images are cropped as for the vision model ({recipe})."
    if preprocessing is None:
        note = (
            f"The images are centre crops of {CROP.width}×{CROP.height} ({recipe}); the features were imported, so the "
            "crop that they were computed from is not known."
        )
    captions = [f"{view}: {VIEW_INFO[view].caption}" for view in views if view != "original"]
    captions.append("removed: the details that zeros removes, at full contrast")
    return ProblemPictures(mistakes, viewed, missing, f"{'; '.join(captions)}. {note}")


def cached_text(key: object, make: Callable[[], str]) -> str:
    """Return the result of ``make``, or its result in an earlier report if ``key`` had the same `repr` there."""
    path = paths.REPORT_CACHE / hashlib.sha256(repr(key).encode()).hexdigest()
    if not path.is_file():
        with write_aside(path) as aside:
            aside.write_bytes(make().encode())
    return path.read_bytes().decode()


def _views_text(crop: npt.NDArray[np.uint8], digest: str, settings: Mapping[str, Any], views: Sequence[str]) -> str:
    """Return, as JSON, the keys of the pictures by view, and the pictures by key."""
    from pipeline.method.frequency_views import ViewSettings  # imports torch
    from pipeline.report.view_picture import view_pixels

    pictures: dict[str, str] = {}
    panels, _ = view_pixels(crop, bytes.fromhex(digest), ViewSettings(**settings), views)
    keys = {view: add_picture(pictures, (255 * panel).round().astype(np.uint8), VIEW) for view, panel in panels.items()}
    return json.dumps([keys, pictures])


def image_of_row(images: str, path: str, max_pixels: int, *, upright: bool = True) -> Image.Image | None:
    """Read an image of the manifest, or beside imported features; return None if it is absent or damaged."""
    file, beside = Path(path), Path(images).parent
    if images.endswith(".npz"):
        file = beside / "images" / path if (beside / "images" / path).is_file() else beside / path
    try:
        return decode(file, max_pixels=max_pixels, upright=upright)
    except RefereeError:
        return None


def add_picture(album: dict[str, str], pixels: npt.NDArray[np.uint8], side: int) -> str:
    """Add an image (h, w, 3), scaled down to at most ``side`` pixels per side, to the album and return its key."""
    image = Image.fromarray(pixels)
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    kind = "png" if max(image.size) <= LOSSLESS else "webp"
    options = {"optimize": True} if kind == "png" else {"quality": QUALITY, "method": 6}
    image.save(buffer, kind, **options)
    content = buffer.getvalue()
    key = hashlib.sha256(content).hexdigest()[:16]
    album[key] = f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"
    return key
