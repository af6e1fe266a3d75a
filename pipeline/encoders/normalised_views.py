"""Crops in, what the model sees out: every wanted view, scaled by the model's mean and standard deviation.

The general way is `frequency_views` and a subtraction and a division, for any wavelet, level and device. On the CPU one
level of Haar, the default, is compiled (`haar_views.c`): the same bits in a ninth of the time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pipeline.encoders.native import library
from pipeline.method.frequency_views import ViewSettings, frequency_views
from pipeline.method.image_noise import VALUES, quantiles

if TYPE_CHECKING:
    from pipeline.encoders.preprocessing import Preprocessing

MATCHED = -1.0  # the compiled function's word for noise of the sub-band's own deviation


class NormalisedViews:
    """Makes views of crops for one model; safe to call from several threads."""

    def __init__(
        self, preprocessing: Preprocessing, settings: ViewSettings, device: torch.device
    ) -> None:
        self._settings = settings
        self._mean = torch.tensor(preprocessing.mean, device=device).reshape(1, 3, 1, 1)
        self._std = torch.tensor(preprocessing.std, device=device).reshape(1, 3, 1, 1)
        even = preprocessing.height % 2 == preprocessing.width % 2 == 0
        default = settings.wavelet in ("haar", "db1") and settings.level == 1
        self._compiled = library() if device.type == "cpu" and default and even else None

    def __call__(
        self, crops: Tensor, keys: Sequence[bytes], views: Sequence[str], words: Tensor | None
    ) -> dict[str, Tensor]:
        """Return the named ``views`` of uint8 crops (n, h, w, 3), normalised: float32 (n, 3, h, w) each.

        keys: the images' sha256 digests. words: their noise's (`noise_words`), if ``rand`` is among the views.
        Crops and words lie on the device, the views do too.
        """
        if self._compiled is not None:
            return self._by_compiled_code(crops, views, words)
        return self._by_torch(crops, keys, views, words)

    def _by_torch(
        self, crops: Tensor, keys: Sequence[bytes], views: Sequence[str], words: Tensor | None
    ) -> dict[str, Tensor]:
        images = crops.permute(0, 3, 1, 2).float().div_(255.0)
        made = frequency_views(images, views, self._settings, keys, words)
        return {view: (made[view] - self._mean) / self._std for view in views}

    def _by_compiled_code(
        self, crops: Tensor, views: Sequence[str], words: Tensor | None
    ) -> dict[str, Tensor]:
        n, h, w, _ = crops.shape
        crops = crops.contiguous()
        made = {view: torch.empty((n, 3, h, w)) for view in views}
        values = quantiles(crops.device)
        middle = values.data_ptr() + VALUES // 2 * values.element_size()
        noise = self._noise
        for i in range(n):
            failed = self._compiled.referee_haar_views(  # type: ignore[union-attr]
                *(crops[i].data_ptr(), h, w, self._mean.data_ptr(), self._std.data_ptr()),
                *(None if words is None else words[i].data_ptr(), middle, noise),
                *(_address(made, view, i) for view in ("original", "zeros", "rand")),
            )
            if failed:
                raise MemoryError
        return made

    @property
    def _noise(self) -> float:
        if self._settings.noise == "matched":
            return MATCHED
        return 1.0 if self._settings.noise == "unit" else float(self._settings.noise)


def _address(made: dict[str, Tensor], view: str, image: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(made[view][image].data_ptr() if view in made else None)
