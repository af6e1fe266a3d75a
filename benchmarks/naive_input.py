"""The input side as one writes it down first: an image at a time, Pillow, PyWavelets channel by channel.

Fair to itself: the file is read, decoded, scaled and cropped once, not once per view.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pywt
import torch
from PIL import Image
from torch import Tensor

SIZE, SCALED = 224, 248  # 224 / 0.9
LEVELS = torch.full((3, 1, 1), 0.5)  # mean and standard deviation of the augreg vision transformers


def crop_of(path: Path) -> Tensor:
    """Return the centre crop (3, 224, 224) in [0, 1], as torchvision's Resize, CenterCrop, ToTensor make it."""
    image = Image.open(path).convert("RGB")
    width, height = image.size
    if width <= height:
        image = image.resize((SCALED, int(SCALED * height / width)), Image.Resampling.BICUBIC)
    else:
        image = image.resize((int(SCALED * width / height), SCALED), Image.Resampling.BICUBIC)
    left, top = round((image.width - SIZE) / 2), round((image.height - SIZE) / 2)
    image = image.crop((left, top, left + SIZE, top + SIZE))
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255)


def view_of(image: Tensor, view: str, rng: np.random.Generator) -> Tensor:
    """Return view ``zeros`` or ``rand`` of an image (3, h, w): dwt2, other details, idwt2, clip."""
    channels = []
    for channel in image.numpy():
        low, details = pywt.dwt2(channel, "haar")
        if view == "zeros":
            details = tuple(np.zeros_like(band) for band in details)
        else:
            details = tuple(rng.normal(0, band.std(), band.shape) for band in details)
        channels.append(pywt.idwt2((low, details), "haar"))
    return torch.from_numpy(np.clip(np.stack(channels), 0, 1).astype(np.float32))


def views_of(path: Path, rng: np.random.Generator) -> list[Tensor]:
    """Return the three views, normalised: each (3, 224, 224)."""
    image = crop_of(path)
    views = [image, view_of(image, "zeros", rng), view_of(image, "rand", rng)]
    return [(view - LEVELS) / LEVELS for view in views]
