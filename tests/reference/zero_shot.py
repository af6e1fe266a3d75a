"""Naive oracle of CLIP zero-shot probabilities, eq. (1), docs/method.md step 2."""

from reference.basics import softmax, unit


def zero_shot(images, texts, scale):
    return [softmax([scale * float(unit(image) @ unit(text)) for text in texts]) for image in images]
