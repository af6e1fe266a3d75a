"""What a step leaves for people: a table of its images, least certain first, and a few figures without labels."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.method.fusion import entropy_weights
from pipeline.method.prediction import Prediction

DIGITS = 6  # decimals of a probability
UNKNOWN = "unknown"  # the class of an image that is rejected
ESTIMATE_ERROR = 8  # points by which the estimate is off on average, see docs/how-to/streams.md
COLUMNS = {
    "path": str, "class": str, "confidence": float,
    "klda": str, "klda_confidence": float, "clip": str, "clip_confidence": float,
    "weight": float, "corrected": str,
}  # fmt: skip


def images_csv(
    images: Sequence[str],
    prediction: Prediction,
    classes: Sequence[str],
    weight: npt.NDArray[np.float64],
    corrected: Sequence[int],
) -> str:
    """Return the table of a step's n images (paths, or `row N`) as CSV, least certain first.

    The prediction is over the c ``classes`` of the step; ``weight`` (n,) is that with which each image entered the
    statistics, ``corrected`` are the rows that a person looked at.
    """
    confidence, rejected = prediction.fused.max(axis=1), prediction.rejected
    if prediction.unknown is not None:
        confidence = np.where(rejected, prediction.unknown, confidence)
    order = np.lexsort((np.arange(len(images)), confidence))  # of equally certain ones the first leads
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    looked_at = set(corrected)
    for row in order:
        branches = [
            value
            for p in (prediction.fused, prediction.klda, prediction.clip)
            for value in (classes[int(p[row].argmax())], _rounded(p[row].max()))
        ]
        if rejected[row]:
            branches[:2] = UNKNOWN, _rounded(confidence[row])
        yes = "yes" if int(row) in looked_at else ""
        writer.writerow([images[row], *branches, _rounded(weight[row]), yes])
    return text.getvalue()


def step_figures(
    prediction: Prediction, classes: Sequence[str], before: dict[str, Any] | None, *, corrected: int
) -> dict[str, Any]:
    """Return figures of a step's images, none of which needs a label; ``before`` are those of the step before.

    ``shares`` of the classes, and of `unknown` where images are rejected, among the answers; ``mean_confidence``;
    ``agreement``, the share of images for which both branches name the same class; ``estimated_accuracy``, see there;
    ``drift`` against the step before: total variation distance of the shares (0 to 1), difference of mean confidence.
    """
    rejected, label = prediction.rejected, prediction.fused.argmax(axis=1)
    share = np.bincount(label[~rejected], minlength=len(classes)) / max(1, len(label))
    shares = {name: _rounded(value) for name, value in zip(classes, share, strict=True)}
    if prediction.unknown is not None:
        shares[UNKNOWN] = _rounded(rejected.mean())
    figures: dict[str, Any] = {
        "images": len(label),
        "corrected": corrected,
        "shares": shares,
        "mean_confidence": _rounded(prediction.fused.max(axis=1).mean()),
        "agreement": _rounded((prediction.klda.argmax(axis=1) == prediction.clip.argmax(axis=1)).mean()),
        "estimated_accuracy": _rounded(estimated_accuracy(prediction)),
        "drift": None,
    }
    if before is not None:
        # sorted: a set has another order in every process, and the sum would differ in its last bit
        names = sorted({*figures["shares"], *before["shares"]})
        moved = [abs(figures["shares"].get(n, 0.0) - before["shares"].get(n, 0.0)) for n in names]
        figures["drift"] = {
            "shares": _rounded(sum(moved) / 2),
            "mean_confidence": _rounded(figures["mean_confidence"] - before["mean_confidence"]),
        }
    return figures


def estimated_accuracy(prediction: Prediction) -> float:
    """Return an estimate of the share of right labels, made without labels: the mean certainty of both branches.

    Certainty is the entropy weight of eq. (18), of each branch by itself: KLDA's is too high on far shifts, CLIP's too
    low on near ones. docs/how-to/streams.md says how good the estimate is where labels exist.
    """
    branches = (prediction.klda, prediction.clip)
    return float(np.mean([entropy_weights(p) for p in branches]))


def _rounded(value: float) -> float:
    return round(float(value), DIGITS)
