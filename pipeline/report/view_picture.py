"""Draw the frequency-aware views of an image, eq. (15), side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from pipeline.errors import counted
from pipeline.method.frequency_views import ViewSettings, frequency_views, removed_details
from pipeline.method.views import VIEW_INFO, VIEWS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANEL = 3.0  # width of a panel in inches; its height follows the crop, up to TALLEST
TALLEST = 6.0
CAPTIONS = 1.3  # height of titles and notes in inches
SMALL = 112  # crops with fewer pixels per side are drawn as visible squares, not smoothed

Pixels = npt.NDArray[np.float32]


def view_pixels(
    crop: npt.NDArray[np.uint8], digest: bytes, settings: ViewSettings, views: Sequence[str] = VIEWS
) -> tuple[dict[str, Pixels], float]:
    """Return ``views`` and ``removed`` as pixels from 0 to 1, and the gain in contrast of ``removed``.

    ``crop`` is 8-bit RGB (h, w, 3), ``digest`` the image's sha256, which seeds its noise. ``removed`` is stretched to
    full contrast, which clips the strongest 0.5%.
    """
    image = _batch(crop)
    batches = frequency_views(image, views, settings, [digest]) | {"removed": removed_details(image, settings)}
    panels: dict[str, Pixels] = {name: batch[0].permute(1, 2, 0).numpy() for name, batch in batches.items()}
    difference = np.abs(panels["removed"])
    strength = float(np.quantile(difference, 0.995))
    gain = 1 / strength if strength > 1 / 1024 else 1.0  # weaker differences are rounding errors
    panels["removed"] = difference * np.float32(gain)
    return {name: panel.clip(0, 1) for name, panel in panels.items()}, gain


def draw_views(crop: npt.NDArray[np.uint8], digest: bytes, settings: ViewSettings) -> Figure:
    """Draw the views of a crop and what was removed from it side by side; arguments as in `view_pixels`."""
    # Imported here so that the command line starts without matplotlib. Figure, unlike pyplot, needs no display.
    from matplotlib.figure import Figure

    panels, gain = view_pixels(crop, digest, settings)
    height, width = crop.shape[:2]
    notes = {view: VIEW_INFO[view].caption for view in VIEWS} | {
        "removed": f"original − zeros, {gain:.3g} times as strong"
    }
    inches = len(panels) * PANEL + 0.5, min(PANEL * height / width, TALLEST) + CAPTIONS
    figure = Figure(figsize=inches, dpi=120, layout="constrained")
    for axis, (name, panel) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        note = notes[name]
        if name in VIEWS:  # if many values are at an end of the range, the noise is too strong
            note += f"\n{np.mean((panel <= 0) | (panel >= 1)):.1%} of values at an end of the range"
        smoothing = "nearest" if max(height, width) < SMALL else "antialiased"
        axis.imshow(panel, interpolation=smoothing, vmin=0, vmax=1)
        axis.set_title(name, fontsize=12, fontweight="bold")
        axis.set_xlabel(note, fontsize=9)
        axis.set(xticks=[], yticks=[])
    figure.suptitle(_caption(_batch(crop), settings), fontsize=10)
    return figure


def _batch(crop: npt.NDArray[np.uint8]) -> torch.Tensor:
    """Convert a crop (h, w, 3) to a batch (1, 3, h, w) with values from 0 to 1."""
    return torch.from_numpy(crop.astype(np.float32) / 255).permute(2, 0, 1)[None]


def _caption(image: torch.Tensor, settings: ViewSettings) -> str:
    """Say how the views were made and how much of the image was removed."""
    centred = image - image.mean(dim=(-2, -1), keepdim=True)
    lost, *totals = (float(x.square().sum()) for x in (removed_details(image, settings), image, centred))
    energy, contrast = (lost / total if total > 0 else 0.0 for total in totals)
    recipe = f"{settings.wavelet}, {counted(settings.level, 'level')}, noise {settings.noise}, seed {settings.seed}"
    shares = f"{energy:.2%} of the energy, {contrast:.2%} of the contrast"
    return f"{recipe}   ·   removed: {shares} (energy about the mean)"
