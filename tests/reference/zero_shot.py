"""Naive oracle of CLIP zero-shot probabilities, eq. (1), docs/method.md step 2."""

import math


def cosine(a, b):
    dot = sum(float(x) * float(y) for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(float(x) ** 2 for x in a) * sum(float(y) ** 2 for y in b))


def softmax(values):
    top = max(values)
    powers = [math.exp(v - top) for v in values]
    return [p / sum(powers) for p in powers]


def zero_shot(images, texts, scale):
    return [softmax([scale * cosine(image, text) for text in texts]) for image in images]
