"""Oracle of docs/method.md step 6, eq. (15): PyWavelets, channel by channel, float64."""

import functools
import math
from statistics import NormalDist

import numpy as np
import pywt


def subband_shapes(size, wavelet, level):
    """Return the shapes of the detail sub-bands, coarsest level first."""
    coefficients = pywt.wavedec2(np.zeros(size), wavelet, level=level)
    return [band.shape for band, _, _ in coefficients[1:]]


@functools.cache
def normal_values():
    """Return the normal values of signed 16-bit numbers in order: 65,536 quantiles with variance 1."""
    values = [NormalDist().inv_cdf((i + 0.5) / 2**16) for i in range(2**16)]
    deviation = math.sqrt(math.fsum(value**2 for value in values) / 2**16)
    return np.array([value / deviation for value in values])


def standard_noise(bits, channels, size, wavelet, level):
    """Return the noise of an image as a list over levels, coarsest first, of arrays (3, channels, h', w').

    ``bits`` draws 64 bits at a time, of which the lowest 16 come first.
    """
    shapes = [(3, channels, *shape) for shape in subband_shapes(size, wavelet, level)]
    counts = [math.prod(shape) for shape in shapes]
    drawn = [int(bits.random_raw()) for _ in range(math.ceil(sum(counts) / 4))]
    words = np.array([word >> shift & 0xFFFF for word in drawn for shift in (0, 16, 32, 48)])
    signed = np.where(words < 2**15, words, words - 2**16)
    values = normal_values()[signed + 2**15]
    parts = np.split(values, np.cumsum(counts))
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=False)]


def views(images, wavelet, level, scale, noise):
    """Return the views `zeros` and `rand` of images (n, c, h, w) in [0, 1].

    ``scale`` is a number or "matched"; ``noise[i]`` is the `standard_noise` of image i.
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
                inverse = pywt.waverec2([kept, *coefficients], wavelet)
                view[i, c] = np.clip(inverse[:height, :width], 0, 1)
    return zeros, rand
