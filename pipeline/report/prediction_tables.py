"""Predictions of single images, laid out for people (a table) and for programs (CSV, JSON)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.method.prediction import Prediction

DIGITS = 6  # of a probability that is written


@dataclass(frozen=True)
class Candidate:
    """A class, its fused probability, and what each branch gave it."""

    name: str
    fused: float
    klda: float
    clip: float


@dataclass(frozen=True)
class PredictedImage:
    """The likeliest classes of one image, best first, and the favourite of each branch with its probability."""

    image: str
    top: tuple[Candidate, ...]
    klda: tuple[str, float]
    clip: tuple[str, float]


def predicted_images(
    images: Sequence[str], prediction: Prediction, classes: Sequence[str], top: int
) -> list[PredictedImage]:
    """Return what to tell of each of n images, given probabilities (n, K) over the K ``classes`` seen."""
    # stable, so that of equal probabilities the first class leads, as argmax has it
    order = np.argsort(-prediction.fused, axis=1, kind="stable")[:, :top]
    return [
        PredictedImage(
            image,
            tuple(
                Candidate(
                    classes[c],
                    _rounded(prediction.fused[i, c]),
                    _rounded(prediction.klda[i, c]),
                    _rounded(prediction.clip[i, c]),
                )
                for c in order[i]
            ),
            _favourite(prediction.klda[i], classes),
            _favourite(prediction.clip[i], classes),
        )
        for i, image in enumerate(images)
    ]


def _rounded(p: np.floating[Any]) -> float:
    return round(float(p), DIGITS)


def _favourite(
    p: np.ndarray[Any, np.dtype[np.float64]], classes: Sequence[str]
) -> tuple[str, float]:
    best = int(p.argmax())
    return classes[best], _rounded(p[best])


def to_csv(predicted: Sequence[PredictedImage]) -> str:
    """Return one line per image and rank; the prediction is rank 1."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("image", "rank", "class", "confidence", "klda", "clip"))
    for image in predicted:
        for rank, c in enumerate(image.top, start=1):
            writer.writerow((image.image, rank, c.name, c.fused, c.klda, c.clip))
    return text.getvalue()


def to_json(
    predicted: Sequence[PredictedImage],
    model: Mapping[str, Any],
    unreadable: Mapping[str, str],
) -> str:
    """Return everything: the model, each image's classes, and what could not be read."""
    told = {
        "model": dict(model),
        "images": [
            {
                "image": image.image,
                "class": image.top[0].name,
                "confidence": image.top[0].fused,
                "klda": dict(zip(("class", "probability"), image.klda, strict=True)),
                "clip": dict(zip(("class", "probability"), image.clip, strict=True)),
                "top": [
                    {"class": c.name, "confidence": c.fused, "klda": c.klda, "clip": c.clip}
                    for c in image.top
                ],
            }
            for image in predicted
        ],
        "unreadable": dict(unreadable),
    }
    return json.dumps(told, indent=2, ensure_ascii=False) + "\n"


def to_text(predicted: Sequence[PredictedImage], headings: tuple[str, str]) -> str:
    """Return a table with one line per image; ``headings`` of the two branches."""
    header = ("image", "class", "confidence", *headings, "next")
    rows = [
        (
            image.image,
            image.top[0].name,
            _percent(image.top[0].fused),
            f"{image.klda[0]} {_percent(image.klda[1])}",
            f"{image.clip[0]} {_percent(image.clip[1])}",
            ", ".join(f"{c.name} {_percent(c.fused)}" for c in image.top[1:]) or "-",
        )
        for image in predicted
    ]
    widths = [max(len(row[k]) for row in (header, *rows)) for k in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, tuple("-" * width for width in widths), *rows)
    ]
    return "\n".join(lines) + "\n"


def _percent(p: float) -> str:
    return f"{100 * p:.1f}%"
