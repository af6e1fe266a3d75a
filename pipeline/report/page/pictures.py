"""The pictures of a problem, where its images are: thumbnails of mistakes and the views of a few images.

Images are no dependency of the report: without them the page is the same, with a sentence in place of the pictures.
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
from pipeline.method.views import ABOUT
from pipeline.write_aside import write_aside

THUMBNAIL, VIEW = 128, 168  # pixels of the longer side
LOSSLESS = 64  # pixels; up to this side a PNG is small enough, and scans of digits stay sharp
QUALITY = 82
HALF = (0.5, 0.5, 0.5)
# of features that were imported, whose model's own is not known
CROP = Preprocessing(224, 224, 0.875, resize_mode="shortest", interpolation="bicubic", mean=HALF, std=HALF)


@dataclass(frozen=True)
class ProblemPictures:
    """The pictures of a problem, as keys of the page's album."""

    mistakes: Mapping[str, str] = field(default_factory=dict)  # path of an image -> key
    views: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # path -> view -> key
    missing: str = ""  # why there are no pictures and how to get them; shown where there is none
    views_note: str = ""  # what the views show, and how they were made


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
    """Read the pictures of a problem into the album; images that are absent or damaged are left out.

    ``shown`` is its table of this name; ``images`` and ``views`` are those of the target in suite.yaml, ``settings``
    are the fields of `ViewSettings`; ``preprocessing`` is None if the features were imported. If ``code``, what the
    report is made by, is given, views are kept until it changes: torch takes a second to import.
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
                kept_text((digest, crop, settings, views, code), make) if code else make()
            )
            album |= pictures
    folder = f"{Path(images).parent.as_posix()}/images" if images.endswith(".npz") else images
    missing = (
        f"No pictures: the images of {target} are not on this machine. Put them at {folder} and run "
        "dvc repro --force --single-item report."
    )
    how = "{wavelet}, level {level}, noise {noise}".format(**settings)
    note = f"As the vision model sees the image ({how})."
    if preprocessing is None:
        note = (
            f"A centre crop of {CROP.width}×{CROP.height} ({how}); the features were imported, so the crop they "
            "were computed from is not known."
        )
    captions = [f"{view}: {ABOUT[view].caption}" for view in views if view != "original"]
    captions.append("removed: what zeros removes, at full contrast")
    return ProblemPictures(mistakes, viewed, missing, f"{'; '.join(captions)}. {note}")


def kept_text(made_of: object, make: Callable[[], str]) -> str:
    """Return what ``make`` returns, or what it returned in a former report when ``made_of`` had the same `repr`."""
    path = paths.KEPT / hashlib.sha256(repr(made_of).encode()).hexdigest()
    if not path.is_file():
        with write_aside(path) as aside:
            aside.write_bytes(make().encode())
    return path.read_bytes().decode()


def _views_text(crop: npt.NDArray[np.uint8], digest: str, settings: Mapping[str, Any], views: Sequence[str]) -> str:
    """Return the keys of the pictures by view, and the pictures, as JSON."""
    from pipeline.method.frequency_views import ViewSettings  # imports torch
    from pipeline.report.view_picture import view_pixels

    pictures: dict[str, str] = {}
    panels, _ = view_pixels(crop, bytes.fromhex(digest), ViewSettings(**settings), views)
    keys = {view: add_picture(pictures, (255 * panel).round().astype(np.uint8), VIEW) for view, panel in panels.items()}
    return json.dumps([keys, pictures])


def image_of_row(images: str, path: str, max_pixels: int, *, upright: bool = True) -> Image.Image | None:
    """Return an image of the manifest, which may be beside imported features; None if it is absent or damaged."""
    file, beside = Path(path), Path(images).parent
    if images.endswith(".npz"):
        file = beside / "images" / path if (beside / "images" / path).is_file() else beside / path
    try:
        return decode(file, max_pixels=max_pixels, upright=upright)
    except RefereeError:
        return None


def add_picture(album: dict[str, str], pixels: npt.NDArray[np.uint8], side: int) -> str:
    """Add a copy of an image (h, w, 3), at most ``side`` pixels long, to the album; return its key."""
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
