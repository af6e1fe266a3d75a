"""Pictures inside the page: small copies of images as data addresses, each once however often it is shown."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[np.uint8]

LOSSLESS = 64  # pixels; up to this side a PNG is small enough, and scans of digits stay sharp
QUALITY = 82


def data_address(pixels: Pixels, side: int) -> str:
    """Return an image (h, w, 3), scaled down to ``side`` at most, as a data address."""
    image = Image.fromarray(pixels)
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    held = io.BytesIO()
    if max(image.size) <= LOSSLESS:
        image.save(held, "PNG", optimize=True)
        kind = "png"
    else:
        image.save(held, "WEBP", quality=QUALITY, method=6)
        kind = "webp"
    return f"data:image/{kind};base64,{base64.b64encode(held.getvalue()).decode('ascii')}"


@dataclass(frozen=True)
class ProblemPictures:
    """The pictures of a problem by the path of their image, as keys of the page's album; or why there are none.

    mistakes: path -> key. views: path -> view -> key.
    """

    mistakes: Mapping[str, str] = field(default_factory=dict)
    views: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    missing: str = ""
    views_note: str = ""


class Album:
    """All pictures of the page, key -> data address."""

    def __init__(self) -> None:
        self.pictures: dict[str, str] = {}
        self._keys: dict[str, str] = {}

    def add(self, address: str) -> str:
        """Return the key of a picture; the same picture has the same key."""
        if address not in self._keys:
            self._keys[address] = f"p{len(self._keys)}"
            self.pictures[self._keys[address]] = address
        return self._keys[address]
