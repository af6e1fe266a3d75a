"""Write a step's table of images and its label-free figures, and read the corrections that people make.

Lines of the table, results/SUITE/streams/STEP.csv, can be copied into the file of corrections.
"""

import csv
import io
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.datasets.checked_csv import require_separator
from pipeline.errors import InputError, did_you_mean, one_line
from pipeline.method.fusion import entropy_weights
from pipeline.method.prediction import Prediction
from pipeline.method.rows import Vector64

DIGITS = 6  # number of decimals of a probability
UNKNOWN_CLASS = "unknown"  # the class of an image that is rejected
ESTIMATE_ERROR = 8  # mean error of the estimated accuracy in percentage points, see docs/how-to/streams.md
COLUMNS = {
    "path": str, "class": str, "confidence": float,
    "klda": str, "klda_confidence": float, "clip": str, "clip_confidence": float,
    "weight": float, "corrected": str,
}  # fmt: skip
CORRECTED = ("path", "class")  # columns of the file of corrections; others are ignored
NO_CORRECTIONS = ",".join(CORRECTED) + "\n"


def read_corrections(file: Path, images: Sequence[str], classes: Sequence[str]) -> dict[int, str]:
    r"""Read a file of corrections; return the class of each corrected image by its row number in ``images``.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "week1.csv"
    >>> _ = file.write_text("path,class\nphotos/b.jpg,mug\n")
    >>> read_corrections(file, ["photos/a.jpg", "photos/b.jpg"], ["bike", "mug"])
    {1: 'mug'}
    """
    row_of = {path: row for row, path in enumerate(images)}
    corrected: dict[int, str] = {}
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            header = reader.fieldnames or []
            require_separator(file, header)
            if any(name not in header for name in CORRECTED):
                raise InputError(f"{file}: has the columns {','.join(header)[:80]!r}, not path,class")
            for line in reader:
                path, name = line["path"] or "", line["class"] or ""
                place = f"{file}: line {reader.line_num}"
                if path not in row_of:
                    raise InputError(f"{place}: {path!r} is no image of this step{did_you_mean(path, images)}")
                if name not in classes:
                    raise InputError(f"{place}: {name!r} is no class of this step{did_you_mean(name, classes)}")
                if corrected.setdefault(row_of[path], name) != name:
                    raise InputError(f"{place}: {path!r} has two classes; keep one line")
    except FileNotFoundError:
        raise InputError(f"{file}: no such file; write one with the line `path,class`") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not CSV ({one_line(error)}); write `path,class` lines") from None
    return corrected


def images_csv(
    images: Sequence[str], prediction: Prediction, classes: Sequence[str], weight: Vector64, corrected: Container[int]
) -> str:
    """Return the table of a step's n images (paths, or `row N`) as CSV, least certain first.

    The prediction is over the c ``classes`` of the step. ``weight`` (n,) is the weight with which each image entered
    the statistics, and ``corrected`` are the rows that a person labelled.
    """
    confidence, rejected = prediction.fused.max(axis=1), prediction.rejected
    if prediction.unknown is not None:
        confidence = np.where(rejected, prediction.unknown, confidence)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in np.argsort(confidence, kind="stable"):  # images of equal confidence keep their order
        cells = [UNKNOWN_CLASS if rejected[row] else classes[prediction.fused[row].argmax()], _rounded(confidence[row])]
        for branch in (prediction.klda, prediction.clip):
            cells += [classes[branch[row].argmax()], _rounded(branch[row].max())]
        writer.writerow([images[row], *cells, _rounded(weight[row]), "yes" if row in corrected else ""])
    return text.getvalue()


def step_figures(
    prediction: Prediction, classes: Sequence[str], previous: dict[str, Any] | None, *, corrected: int
) -> dict[str, Any]:
    """Return figures of a step's images that need no labels; ``previous`` has those of the step before.

    ``shares`` of the predicted classes, and of `unknown` if images are rejected; ``mean_confidence``; ``agreement``,
    the share of images for which both branches predict the same class; ``estimated_accuracy``, the mean of both
    branches' entropy weights, eq. (18) (KLDA's is too high for large shifts, CLIP's too low for small ones;
    docs/how-to/streams.md measures how good the estimate is on labelled data); ``drift`` since the step before: total
    variation distance of the shares (0 to 1) and difference of mean confidence.
    """
    rejected, label = prediction.rejected, prediction.fused.argmax(axis=1)
    share = np.bincount(label[~rejected], minlength=len(classes)) / max(1, len(label))
    shares = {name: _rounded(value) for name, value in zip(classes, share, strict=True)}
    if prediction.unknown is not None:
        shares[UNKNOWN_CLASS] = _rounded(rejected.mean())
    certainty = [entropy_weights(p) for p in (prediction.klda, prediction.clip)]
    figures: dict[str, Any] = {
        "images": len(label),
        "corrected": corrected,
        "shares": shares,
        "mean_confidence": _rounded(prediction.fused.max(axis=1).mean()),
        "agreement": _rounded((prediction.klda.argmax(axis=1) == prediction.clip.argmax(axis=1)).mean()),
        "estimated_accuracy": _rounded(np.mean(certainty)),
        "drift": None,
    }
    if previous is not None:
        # sorted, because a set's order differs between processes and would change the last bit of the sum
        names = sorted({*shares, *previous["shares"]})
        moved = [abs(shares.get(n, 0.0) - previous["shares"].get(n, 0.0)) for n in names]
        figures["drift"] = {
            "shares": _rounded(sum(moved) / 2),
            "mean_confidence": _rounded(figures["mean_confidence"] - previous["mean_confidence"]),
        }
    return figures


def _rounded(value: float | np.floating) -> float:
    return round(float(value), DIGITS)
