"""One picture of what the frequency-aware views (15) do to an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from pipeline.method.frequency_views import VIEWS, ViewSettings, frequency_views, removed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = 3.0  # inches, the width of a panel; its height follows the crop, up to TALLEST
TALLEST = 6.0
GAP, ABOVE, BELOW = 0.1, 0.75, 0.55  # inches between panels, for titles, for notes
SMALL = 112  # pixels; a smaller crop is drawn as visible squares, not smoothed

Pixels = npt.NDArray[np.float32]


def draw_views(crop: npt.NDArray[np.uint8], digest: bytes, settings: ViewSettings) -> Figure:
    """Draw original, zeros, rand and what was removed from one crop, (h, w, 3) 8-bit RGB.

    digest: the image's sha256, from which its noise is drawn.
    """
    image = torch.from_numpy(crop.astype(np.float32) / 255).permute(2, 0, 1)[None]
    views = frequency_views(image, VIEWS, settings, [digest])
    original, zeros, rand = (_pixels(views[view]) for view in VIEWS)
    difference = np.abs(_pixels(removed(image, settings)))
    gain = contrast_gain(difference)
    height, width = crop.shape[:2]

    figure, axes = _four_panels(height, width)
    _show(axes[0], original, "original", f"{width}×{height} pixels\n{_extreme(original)}")
    _show(axes[1], zeros, "zeros", f"details replaced by zeros\n{_extreme(zeros)}")
    noise = settings.noise if isinstance(settings.noise, str) else f"std {settings.noise:g}"
    _show(axes[2], rand, "rand", f"details replaced by noise: {noise}\n{_extreme(rand)}")
    scale = f"|original − zeros|, shown ×{gain:.3g}\nfull brightness is {1 / gain:.3f} or more"
    _show(axes[3], np.clip(difference * gain, 0, 1), "removed", scale)
    top = 1 - 0.12 / figure.get_figheight()
    figure.suptitle(_caption(image, settings), fontsize=10, y=top, verticalalignment="top")
    return figure


def _pixels(batch: torch.Tensor) -> Pixels:
    """Return the only image of (1, 3, h, w) as (h, w, 3)."""
    pixels: Pixels = batch[0].permute(1, 2, 0).numpy()
    return pixels


def contrast_gain(difference: Pixels) -> float:
    """Return the factor that stretches ``difference`` to full contrast, bar its strongest 0.5%."""
    strong = float(np.quantile(difference, 0.995))
    return 1 / strong if strong > 1 / 1024 else 1.0  # nothing there: do not blow up rounding


def _four_panels(height: int, width: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with room for four panels of ``height``×``width`` and their captions."""
    # Imported here: the command line starts without matplotlib. Figure, not pyplot: no display.
    from matplotlib.figure import Figure

    panel = min(PANEL * height / width, TALLEST)
    wide, high = 4 * PANEL + 5 * GAP, panel + ABOVE + BELOW
    figure = Figure(figsize=(wide, high), dpi=120)
    boxes = [(GAP + i * (PANEL + GAP), BELOW, PANEL, panel) for i in range(4)]
    axes = [figure.add_axes((x / wide, y / high, w / wide, h / high)) for x, y, w, h in boxes]
    return figure, axes


def _show(axis: Axes, panel: Pixels, title: str, note: str) -> None:
    smoothing = "nearest" if max(panel.shape[:2]) < SMALL else "antialiased"
    axis.imshow(panel, interpolation=smoothing, vmin=0, vmax=1)
    axis.set_title(title, fontsize=12, fontweight="bold")
    axis.set_xlabel(note, fontsize=9)
    axis.set(xticks=[], yticks=[])


def _extreme(panel: Pixels) -> str:
    """Say how many values are at an end of the range: where noise is too strong, most of them."""
    return f"{np.mean((panel <= 0) | (panel >= 1)):.1%} of values at 0 or 1"


def _caption(image: torch.Tensor, settings: ViewSettings) -> str:
    """Say how the views were made and how much of the image went."""
    lost = float(removed(image, settings).square().sum())
    energy = float(image.square().sum())
    contrast = float((image - image.mean(dim=(-2, -1), keepdim=True)).square().sum())
    levels = "1 level" if settings.level == 1 else f"{settings.level} levels"
    how = f"{settings.wavelet}, {levels}, noise {settings.noise}, seed {settings.seed}"
    shares = f"{_share(lost, energy)} of the energy, {_share(lost, contrast)} of the contrast"
    return f"{how}   ·   removed: {shares} (energy about the mean)"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.2%}" if whole > 0 else "0%"
