"""Draw batches of random glyph images by tensor operations on whole batches.

Distance fields (`glyph_bank`) are warped, thresholded at a random stroke thickness, broken, blurred and scaled down and
up again. The ranges are wide on purpose: handwriting is never shown, so the variation of random print must cover it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import avg_pool2d, grid_sample, interpolate, pad

from pretraining.glyph_bank import FIELD_SIZE, FILL, GlyphBank

CANVAS = 64
GROUPS = 4  # parts of a batch, each with one resolution
RESOLUTIONS = (8, 10, 14, 20, 28, 28, 32, 48)


@dataclass(frozen=True)
class Batch:
    """Glyph images with their classes."""

    images: torch.Tensor  # (n, 1, 64, 64) in [0, 1], white on black
    classes: torch.Tensor  # (n,)


class GlyphBatches:
    """Endless source of batches, determined by the bank and the seed."""

    def __init__(self, bank: GlyphBank, *, seed: int, digit_share: float, digits: int = 10) -> None:
        self.bank = bank
        self.generator = torch.Generator().manual_seed(seed)
        self.digit_share = digit_share
        order = torch.argsort(bank.classes, stable=True)
        counts = torch.bincount(bank.classes)
        self._members = list(order.split(counts.tolist()))
        self._digits = digits

    def draw(self, n: int, strength: float = 1.0) -> Batch:
        """Draw n random glyphs: a random class, one of its glyphs, a random rendering.

        `strength` scales the warps (0: upright print), because a transformer that starts with full warps learns nothing
        in its first hundreds of steps.
        """
        classes = self._random_classes(n)
        picks = torch.stack([self._members[c][self._random_index(len(self._members[c]))] for c in classes.tolist()])
        skeleton = (self._uniform(n, 0, 1) < 0.65).long()
        fields = self.bank.fields[picks, skeleton].unsqueeze(1)
        return Batch(self._render(fields, skeleton.bool(), strength), classes)

    def _render(self, fields: torch.Tensor, skeleton: torch.Tensor, strength: float) -> torch.Tensor:
        g = self.generator
        n = len(fields)
        sizes = [RESOLUTIONS[self._random_index(len(RESOLUTIONS))] for _ in range(GROUPS)]
        # At low resolution the glyph must fill the frame: a tiny glyph in 8 x 8 pixels shows nothing.
        smallest = torch.cat(
            [
                torch.full((len(part),), 0.85 if size <= 10 else 0.55)
                for part, size in zip(fields.chunk(GROUPS), sizes, strict=True)
            ]
        )
        fill = smallest + (1.05 - smallest) * self._uniform(n, 0, 1)
        warped = grid_sample(fields, random_grid(n, fill, strength, g), padding_mode="border", align_corners=False)
        # Radii are in pixels of the field, hence relative to the glyph, whatever its size in the frame.
        pen = torch.exp(self._uniform(n, math.log(1.3), math.log(5.5)))
        change = self._uniform(n, -1.2, 3.0)
        radius = torch.where(skeleton, pen, change).view(n, 1, 1, 1)
        uneven = smooth_noise(n, 1, 4, g) * self._uniform(n, 0.0, 0.8).view(n, 1, 1, 1)
        softness = self._uniform(n, 0.3, 1.0).view(n, 1, 1, 1)
        ink = torch.sigmoid((warped + radius + uneven) / softness)
        ink = break_strokes(ink, 0.3 * strength, g)
        ink = low_resolution(ink, sizes, g)
        return finish(ink, g)

    def _random_classes(self, n: int) -> torch.Tensor:
        letters = len(self._members) - self._digits
        digit = torch.randint(0, self._digits, (n,), generator=self.generator)
        letter = torch.randint(0, max(letters, 1), (n,), generator=self.generator) + self._digits
        is_digit = (self._uniform(n, 0, 1) < self.digit_share) | (letters == 0)
        return torch.where(is_digit, digit, letter)

    def _random_index(self, high: int) -> int:
        return int(torch.randint(0, high, (1,), generator=self.generator))

    def _uniform(self, n: int, low: float, high: float) -> torch.Tensor:
        return uniform(n, low, high, self.generator)


def uniform(n: int, low: float, high: float, g: torch.Generator) -> torch.Tensor:
    """Return random values (n,) in [low, high)."""
    return low + (high - low) * torch.rand(n, generator=g)


def smooth_noise(n: int, channels: int, knots: int, g: torch.Generator) -> torch.Tensor:
    """Return smooth noise (n, channels, 64, 64), interpolated between unit normal values at knots x knots points."""
    coarse = torch.randn(n, channels, knots, knots, generator=g)
    return interpolate(coarse, size=(CANVAS, CANVAS), mode="bicubic", align_corners=True)


def random_grid(n: int, fill: torch.Tensor, strength: float, g: torch.Generator) -> torch.Tensor:
    """Return the sampling points (n, 64, 64, 2) in [-1, 1] of the output pixels in the field.

    They combine an affine map (rotation, slant, stretch, position, and a size by which the glyph fills `fill` of the
    frame) with two smooth displacements: a wide one bends the glyph, a narrow one makes its line shaky.
    """
    turn = torch.randn(n, generator=g).clamp(-2.5, 2.5) * 0.17 * strength
    slant = torch.randn(n, generator=g).clamp(-2.5, 2.5) * 0.25 * strength
    stretch = torch.exp(torch.randn(n, generator=g).clamp(-2, 2) * 0.18 * strength)
    zoom = FILL / fill  # width of the frame in fields
    cos, sin = torch.cos(turn), torch.sin(turn)
    rotate = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    zero = torch.zeros_like(slant)
    shear = torch.stack([torch.stack([stretch, slant], -1), torch.stack([zero, 1 / stretch], -1)], -2)
    matrix = rotate @ shear * zoom.view(n, 1, 1)
    room = (1.06 - fill).view(n, 1).clamp(min=0.06)
    place = (torch.rand(n, 2, generator=g) * 2 - 1) * room * 0.5 * strength
    axis = (torch.arange(CANVAS) + 0.5) / CANVAS * 2 - 1
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    points = torch.stack([x, y], -1).view(1, -1, 2) - place.view(n, 1, 2)
    grid = (points @ matrix.transpose(1, 2)).view(n, CANVAS, CANVAS, 2)
    bend = smooth_noise(n, 2, 3, g) * (uniform(n, 0, 0.13 * strength, g) * zoom).view(n, 1, 1, 1)
    shake = smooth_noise(n, 2, 5, g) * (uniform(n, 0, 0.07 * strength, g) * zoom).view(n, 1, 1, 1)
    return grid + (bend + shake).permute(0, 2, 3, 1)


def break_strokes(ink: torch.Tensor, share: float, g: torch.Generator) -> torch.Tensor:
    """Erase a small soft disc in a share of the images, which opens loops and splits bars."""
    n = len(ink)
    centre = uniform(2 * n, -0.6, 0.6, g).view(n, 2, 1, 1)
    radius = uniform(n, 0.08, 0.2, g).view(n, 1, 1)
    axis = (torch.arange(CANVAS) + 0.5) / CANVAS * 2 - 1
    squared_distance = (axis.view(1, -1, 1) - centre[:, 0]) ** 2 + (axis.view(1, 1, -1) - centre[:, 1]) ** 2
    keep = torch.sigmoid((squared_distance.sqrt() - radius) * 25)
    keep[uniform(n, 0, 1, g) >= share] = 1.0
    return ink * keep.unsqueeze(1)


def low_resolution(ink: torch.Tensor, sizes: Sequence[int], g: torch.Generator) -> torch.Tensor:
    """Scale down and up again; the batch is split into one group per size."""
    parts = []
    for group, size in zip(ink.chunk(len(sizes)), sizes, strict=True):
        part = group
        if torch.rand(1, generator=g) < 0.5:
            part = avg_pool2d(pad(part, (1, 1, 1, 1)), 3, stride=1)  # soft pen or scanner
        small = interpolate(part, size=(size, size), mode="area")
        mode = "bicubic" if torch.rand(1, generator=g) < 0.7 else "bilinear"
        parts.append(interpolate(small, size=(CANVAS, CANVAS), mode=mode, align_corners=False))
    return torch.cat(parts)


def finish(ink: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    """Vary brightness and contrast, add a little noise to some images, and clamp to [0, 1]."""
    n = len(ink)
    gamma = torch.exp(uniform(n, -0.4, 0.4, g)).view(n, 1, 1, 1)
    level = uniform(n, 0.7, 1.2, g).view(n, 1, 1, 1)
    noisy = (uniform(n, 0, 1, g) < 0.2).float() * uniform(n, 0, 0.1, g)
    noise = torch.randn(ink.shape, generator=g) * noisy.view(n, 1, 1, 1)
    return (ink.clamp(0, 1) ** gamma * level + noise).clamp(0, 1)


assert FIELD_SIZE == CANVAS  # so that distances in the field are pixels of the canvas
