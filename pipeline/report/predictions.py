"""Predictions of single images, laid out for people (a table) and for programs (CSV, JSON)."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.method.prediction import Prediction
from pipeline.report.table_formats import align

UNKNOWN = "unknown"  # the answer for an image of none of the classes
DIGITS = 6  # decimals of a probability


def predicted_images(
    images: Sequence[str], prediction: Prediction, classes: Sequence[str], top: int
) -> list[dict[str, Any]]:
    """Return the prediction for each image, naming the ``top`` most probable of the classes seen.

    ``class`` and ``confidence`` are the fused ones, or ``unknown`` and the confidence in that; ``klda`` and ``clip``
    the class that each branch prefers; ``top`` the most probable classes, best first.
    """
    # stable: of equal probabilities the first class leads, as argmax has it
    order = np.argsort(-prediction.fused, axis=1, kind="stable")[:, :top]
    by_branch = {"confidence": prediction.fused, "klda": prediction.klda, "clip": prediction.clip}
    probability = {name: p.round(DIGITS).tolist() for name, p in by_branch.items()}
    preferred = {name: by_branch[name].argmax(axis=1) for name in ("klda", "clip")}
    predicted = []
    for i, image in enumerate(images):
        candidates = [{"class": classes[c], **{name: p[i][c] for name, p in probability.items()}} for c in order[i]]
        best = {key: candidates[0][key] for key in ("class", "confidence")}
        if prediction.unknown is not None and prediction.rejected[i]:
            best = {"class": UNKNOWN, "confidence": round(float(prediction.unknown[i]), DIGITS)}
        branches = {
            name: {"class": classes[c[i]], "probability": probability[name][i][c[i]]} for name, c in preferred.items()
        }
        predicted.append({"image": image, **best, **branches, "top": candidates})
    return predicted


def to_csv(predicted: Sequence[Mapping[str, Any]]) -> str:
    """Return a line per image and rank; the prediction has rank 1, `unknown` with its confidence alone."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("image", "rank", "class", "confidence", "klda", "clip"))
    for image in predicted:
        answers = [tuple(candidate.values()) for candidate in image["top"]]
        if image["class"] != answers[0][0]:
            answers.insert(0, (UNKNOWN, image["confidence"], "", ""))
        writer.writerows((image["image"], rank, *answer) for rank, answer in enumerate(answers, start=1))
    return text.getvalue()


def to_json(predicted: Sequence[Mapping[str, Any]], model: Mapping[str, Any], unreadable: Mapping[str, str]) -> str:
    """Return the model, the predictions, and which images could not be read and why."""
    content = {"model": model, "images": predicted, "unreadable": unreadable}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def to_text(predicted: Sequence[Mapping[str, Any]], headings: tuple[str, str]) -> str:
    """Return a table with one line per image; `headings` are those of the two branches."""
    rows: list[Sequence[str]] = [("image", "class", "confidence", *headings, "next")]
    for image in predicted:
        branches = (f"{image[b]['class']} {image[b]['probability']:.1%}" for b in ("klda", "clip"))
        others = ", ".join(f"{c['class']} {c['confidence']:.1%}" for c in image["top"][1:])
        rows.append((image["image"], image["class"], f"{image['confidence']:.1%}", *branches, others or "-"))
    header, *lines = aligned = align(rows, left=len(rows[0]))
    return "\n".join([header, "-" * max(map(len, aligned)), *lines]) + "\n"
