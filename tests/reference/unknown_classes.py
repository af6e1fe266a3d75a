"""Naive oracles of the baselines that may answer `unknown`, image by image, following their definitions."""

import math

from reference.basics import between_variance, entropy, softmax


def otsu(values):
    """Return the middle of the gap that splits the values best."""
    v = sorted(values)
    best = max(range(1, len(v)), key=lambda i: between_variance(v[:i], v[i:]))
    return (v[best - 1] + v[best]) / 2


def scores(name, cosines, scale, distances, p_source):
    """Return the class and u of an image, given K cosines, squared distances to source means, and the source's p."""
    p = softmax([scale * c for c in cosines])
    best, u = {
        "source-max-softmax": (p_source, -max(p_source)),
        "source-entropy": (p_source, entropy(p_source)),
        "mcm": (cosines, -max(softmax(cosines))),
        "clip-entropy": (cosines, entropy(p)),
        "clip-half-entropy": (cosines, entropy(p)),
        "clip-calibrated": (cosines, entropy(p)),
        "clip-largest-cosine": (cosines, -max(cosines)),
        "nearest-mean-distance": ([-d for d in distances], min(distances)),
    }[name]
    return best.index(max(best)), u


def calibration_loss(cosines, labels, temperature):
    """Return uniood's loss: NLL and calibration error (15 bins) on the first half of the classes, plus the excess over
    chance of the mean confidence in images of the other half.
    """
    half = (len(cosines[0]) - 1) // 2
    bins = [[] for _ in range(15)]
    nll, inside, outside = 0.0, 0, []
    for row, y in zip(cosines, labels, strict=True):
        p = softmax([c / temperature for c in row[:half]])
        if y >= half:
            outside.append(max(p))
            continue
        nll, inside = nll - math.log(p[y]), inside + 1
        bins[min(math.ceil(max(p) * 15) - 1, 14)].append((max(p), p.index(max(p)) == y))
    error = sum(abs(sum(c for c, _ in b) - sum(right for _, right in b)) / inside for b in bins if b)
    return nll / inside + error + sum(outside) / len(outside) - 1 / half
