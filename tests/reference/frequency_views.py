"""Oracle of METHOD.md step 6, eq. (15): PyWavelets, channel by channel, float64."""

import numpy as np
import pywt


def subband_shapes(size, wavelet, level):
    """Shapes of the detail sub-bands, coarsest level first."""
    coefficients = pywt.wavedec2(np.zeros(size), wavelet, level=level)
    return [band.shape for band, _, _ in coefficients[1:]]


def standard_noise(generator, channels, size, wavelet, level):
    """One image's noise: per level, coarsest first, (3, channels, h', w') float32."""
    shapes = subband_shapes(size, wavelet, level)
    return [generator.standard_normal((3, channels, *shape), dtype=np.float32) for shape in shapes]


def views(images, wavelet, level, scale, noise):
    """Both views of images (n, c, h, w) in [0, 1].

    scale: a number, or "matched". noise[i]: as `standard_noise` gives it for image i.
    """
    zeros, rand = np.empty(images.shape), np.empty(images.shape)
    for i, image in enumerate(images):
        for c, channel in enumerate(image.astype(np.float64)):
            kept, *details = pywt.wavedec2(channel, wavelet, level=level)
            blank = [tuple(np.zeros_like(band) for band in bands) for bands in details]
            noisy = []
            for depth, bands in enumerate(details):
                replaced = []
                for b, band in enumerate(bands):
                    deviation = band.std() if scale == "matched" else scale
                    replaced.append(deviation * noise[i][depth][b, c].astype(np.float64))
                noisy.append(tuple(replaced))
            height, width = channel.shape
            for view, coefficients in ((zeros, blank), (rand, noisy)):
                image_again = pywt.waverec2([kept, *coefficients], wavelet)
                view[i, c] = np.clip(image_again[:height, :width], 0, 1)
    return zeros, rand
