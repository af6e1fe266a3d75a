"""Distance fields of every glyph of every font: what random glyphs are cut from.

A glyph is kept twice, as numbers that can be thresholded at any level:

- its *outline* field, distance to the edge of the ink, positive inside: `field + r > 0` is the ink
  thickened by r pixels (or thinned, r < 0);
- its *skeleton* field, minus the distance to the thinned centre line: `field + r > 0` is the glyph
  redrawn with a round pen of radius r.

So stroke thickness costs one addition, for a whole batch at once.
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
FILL = 0.7  # the longer side of a glyph, as a share of the field
FAR = 16.0  # distances are cut off here; no pen is that wide


@dataclass(frozen=True)
class GlyphBank:
    """fields: (G, 2, 64, 64) outline and skeleton; classes: (G,) index into the class names."""

    fields: torch.Tensor
    classes: torch.Tensor


def build_bank(fonts: Sequence[Path], characters: Sequence[tuple[str, int]]) -> GlyphBank:
    """Draw each (character, class) with each font that has the character."""
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
    return GlyphBank(fields.clamp_(-FAR, FAR), torch.tensor(classes))


def _has(font: Path, character: str) -> bool:
    """Whether the font draws this character differently from one it cannot have."""
    face = ImageFont.truetype(str(font), 32)
    return bytes(face.getmask(character)) != bytes(face.getmask("\uffff"))


def _signed_distance(ink: NDArray[np.bool_]) -> NDArray[np.float64]:
    inside: NDArray[np.float64] = distance_transform_edt(ink)
    return inside - distance_transform_edt(~ink)


def thin(ink: torch.Tensor, chunk: int = 1024) -> torch.Tensor:
    """Zhang and Suen's thinning (1984) of many images at once: (G, h, w) bool to (G, h, w) bool."""
    return torch.cat([_thin_chunk(part) for part in ink.split(chunk)])


def _thin_chunk(ink: torch.Tensor) -> torch.Tensor:
    ink = ink.clone()
    changed = True
    while changed:
        changed = False
        for first in (True, False):
            removable = _removable(ink, first)
            if removable.any():
                ink &= ~removable
                changed = True
    return ink


def _removable(ink: torch.Tensor, first: bool) -> torch.Tensor:
    """Border pixels that can go without breaking the line, on two of its four sides."""
    padded = torch.nn.functional.pad(ink, (1, 1, 1, 1))
    h, w = ink.shape[1:]
    # The eight neighbours, clockwise from north: p2 .. p9 in the paper.
    offsets = ((0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0), (0, 0))
    ring = [padded[:, y : y + h, x : x + w] for y, x in offsets]
    count = sum(p.to(torch.int8) for p in ring)
    turns = sum((~a & b).to(torch.int8) for a, b in zip(ring, [*ring[1:], ring[0]], strict=True))
    n, _, e, _, s, _, west, _ = ring
    sides = ~(n & e & s) & ~(e & s & west) if first else ~(n & e & west) & ~(n & s & west)
    return ink & (count >= 2) & (count <= 6) & (turns == 1) & sides
