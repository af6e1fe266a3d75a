"""Compute distance fields of all glyphs of all fonts, from which random glyphs are drawn.

Each glyph has two fields, which can be thresholded at any level:

- The *outline* field is the distance to the edge of the ink, positive inside: `field + r > 0` is the ink thickened by r
  pixels (or thinned, if r < 0).
- The *skeleton* field is minus the distance to the thinned centre line: `field + r > 0` is the glyph redrawn with a
  round pen of radius r.

Changing the stroke thickness of a whole batch thus takes one addition.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import ImageFont
from scipy.ndimage import distance_transform_edt

from pipeline.datasets.digits import render_glyph

FIELD_SIZE = 64
FILL = 0.7  # longer side of a glyph as a share of the field
MAX_DISTANCE = 16.0  # distances are clipped here; no pen is that wide


@dataclass(frozen=True)
class GlyphBank:
    """Distance fields of G glyphs with their classes."""

    fields: torch.Tensor  # (G, 2, 64, 64), outline and skeleton
    classes: torch.Tensor  # (G,), indices of the class names


def build_bank(fonts: Sequence[Path], characters: Sequence[tuple[str, int]]) -> GlyphBank:
    """Draw every (character, class) in every font that has the character."""
    inks: list[NDArray[np.bool_]] = []
    classes: list[int] = []
    for font in fonts:
        for character, class_index in characters:
            if not _has(font, character):
                continue
            ink = render_glyph(character, font, FIELD_SIZE, fill=FILL) > 96
            if ink.sum() > 20:
                inks.append(ink)
                classes.append(class_index)
    skeletons = thin(torch.from_numpy(np.stack(inks)))
    fields = torch.empty(len(inks), 2, FIELD_SIZE, FIELD_SIZE)
    for i, ink in enumerate(inks):
        fields[i, 0] = torch.from_numpy(_signed_distance(ink))
        fields[i, 1] = -torch.from_numpy(distance_transform_edt(~skeletons[i].numpy()))
    return GlyphBank(fields.clamp_(-MAX_DISTANCE, MAX_DISTANCE), torch.tensor(classes))


def _has(font: Path, character: str) -> bool:
    """Return whether the font draws this character differently from a character that no font has."""
    face = ImageFont.truetype(str(font), 32)
    return bytes(face.getmask(character)) != bytes(face.getmask("\uffff"))


def _signed_distance(ink: NDArray[np.bool_]) -> NDArray[np.float64]:
    inside: NDArray[np.float64] = distance_transform_edt(ink)
    return inside - distance_transform_edt(~ink)


def thin(ink: torch.Tensor, chunk: int = 1024) -> torch.Tensor:
    """Thin many images (G, h, w) of bools at once by the algorithm of Zhang and Suen (1984)."""
    return torch.cat([_thin_chunk(part) for part in ink.split(chunk)])


def _thin_chunk(ink: torch.Tensor) -> torch.Tensor:
    ink = ink.clone()
    changed = True
    while changed:
        changed = False
        for first_pass in (True, False):
            removable = _removable(ink, first_pass)
            if removable.any():
                ink &= ~removable
                changed = True
    return ink


def _removable(ink: torch.Tensor, first_pass: bool) -> torch.Tensor:
    """Return the border pixels on two of the four sides that can be removed without breaking the line."""
    padded = torch.nn.functional.pad(ink, (1, 1, 1, 1))
    h, w = ink.shape[1:]
    # The eight neighbours, clockwise from north: p2 .. p9 in the paper.
    offsets = ((0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0), (0, 0))
    ring = [padded[:, y : y + h, x : x + w] for y, x in offsets]
    count = sum(p.to(torch.int8) for p in ring)
    turns = sum((~a & b).to(torch.int8) for a, b in zip(ring, [*ring[1:], ring[0]], strict=True))
    n, _, e, _, s, _, west, _ = ring
    sides = ~(n & e & s) & ~(e & s & west) if first_pass else ~(n & e & west) & ~(n & s & west)
    return ink & (count >= 2) & (count <= 6) & (turns == 1) & sides
