"""One picture of what the frequency-aware views, eq. (15), do to an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from pipeline.errors import counted
from pipeline.method.frequency_views import ViewSettings, frequency_views, removed
from pipeline.method.views import ABOUT, VIEWS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANEL = 3.0  # inches, the width of a panel; its height follows the crop, up to TALLEST
TALLEST = 6.0
CAPTIONS = 1.3  # inches, for titles and notes
SMALL = 112  # pixels; a smaller crop is drawn as visible squares, not smoothed

Pixels = npt.NDArray[np.float32]


def view_pixels(
    crop: npt.NDArray[np.uint8], digest: bytes, settings: ViewSettings, views: Sequence[str] = VIEWS
) -> tuple[dict[str, Pixels], float]:
    """Return some ``views`` and ``removed``, from 0 to 1, and how much the last is stretched.

    ``crop`` is 8-bit RGB (h, w, 3), ``digest`` the image's sha256, which seeds its noise. What was removed is stretched
    to full contrast, except its strongest 0.5%.
    """
    image = _batch(crop)
    shown = frequency_views(image, views, settings, [digest]) | {"removed": removed(image, settings)}
    panels: dict[str, Pixels] = {name: view[0].permute(1, 2, 0).numpy() for name, view in shown.items()}
    difference = np.abs(panels["removed"])
    strong = float(np.quantile(difference, 0.995))
    gain = 1 / strong if strong > 1 / 1024 else 1.0  # below that it is rounding error
    panels["removed"] = difference * np.float32(gain)
    return {name: panel.clip(0, 1) for name, panel in panels.items()}, gain


def draw_views(crop: npt.NDArray[np.uint8], digest: bytes, settings: ViewSettings) -> Figure:
    """Draw the views of one crop and what was removed from it side by side; arguments as of `view_pixels`."""
    # Imported here: the command line starts without matplotlib. Figure, not pyplot: no display.
    from matplotlib.figure import Figure

    panels, gain = view_pixels(crop, digest, settings)
    height, width = crop.shape[:2]
    notes = {view: ABOUT[view].caption for view in VIEWS} | {"removed": f"original − zeros, {gain:.3g} times as strong"}
    tall = min(PANEL * height / width, TALLEST) + CAPTIONS
    figure = Figure(figsize=(len(panels) * PANEL + 0.5, tall), dpi=120, layout="constrained")
    for axis, (name, panel) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        note = notes[name]
        if name in VIEWS:  # many values at an end of the range: the noise is too strong
            note += f"\n{np.mean((panel <= 0) | (panel >= 1)):.1%} of values at an end of the range"
        smoothing = "nearest" if max(height, width) < SMALL else "antialiased"
        axis.imshow(panel, interpolation=smoothing, vmin=0, vmax=1)
        axis.set_title(name, fontsize=12, fontweight="bold")
        axis.set_xlabel(note, fontsize=9)
        axis.set(xticks=[], yticks=[])
    figure.suptitle(_caption(_batch(crop), settings), fontsize=10)
    return figure


def _batch(crop: npt.NDArray[np.uint8]) -> torch.Tensor:
    """Return a crop (h, w, 3) as a batch of one, (1, 3, h, w), from 0 to 1."""
    return torch.from_numpy(crop.astype(np.float32) / 255).permute(2, 0, 1)[None]


def _caption(image: torch.Tensor, settings: ViewSettings) -> str:
    """Return how the views were made and how much of the image was removed."""
    about_mean = image - image.mean(dim=(-2, -1), keepdim=True)
    lost, *energies = (float(x.square().sum()) for x in (removed(image, settings), image, about_mean))
    of_energy, of_contrast = (lost / whole if whole > 0 else 0.0 for whole in energies)
    how = f"{settings.wavelet}, {counted(settings.level, 'level')}, noise {settings.noise}, seed {settings.seed}"
    shares = f"{of_energy:.2%} of the energy, {of_contrast:.2%} of the contrast"
    return f"{how}   ·   removed: {shares} (energy about the mean)"
