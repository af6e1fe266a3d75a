"""What people read and write of a step: a table of its images, figures without labels, and corrections.

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

DIGITS = 6  # decimals of a probability
UNKNOWN_CLASS = "unknown"  # the class of an image that is rejected
ESTIMATE_ERROR = 8  # points by which the estimate is off on average, see docs/how-to/streams.md
COLUMNS = {
    "path": str, "class": str, "confidence": float,
    "klda": str, "klda_confidence": float, "clip": str, "clip_confidence": float,
    "weight": float, "corrected": str,
}  # fmt: skip
CORRECTED = ("path", "class")  # the columns of corrections; others are ignored
NO_CORRECTIONS = ",".join(CORRECTED) + "\n"


def read_corrections(file: Path, images: Sequence[str], classes: Sequence[str]) -> dict[int, str]:
    r"""Return row number and class of each of a step's ``images`` that a person looked at, named as in its table.

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
                at = f"{file}: line {reader.line_num}"
                if path not in row_of:
                    raise InputError(f"{at}: {path!r} is no image of this step{did_you_mean(path, images)}")
                if name not in classes:
                    raise InputError(f"{at}: {name!r} is no class of this step{did_you_mean(name, classes)}")
                if corrected.setdefault(row_of[path], name) != name:
                    raise InputError(f"{at}: {path!r} has two classes; keep one line")
    except FileNotFoundError:
        raise InputError(f"{file}: no such file; write one with the line `path,class`") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not CSV ({one_line(error)}); write `path,class` lines") from None
    return corrected


def images_csv(
    images: Sequence[str], prediction: Prediction, classes: Sequence[str], weight: Vector64, corrected: Container[int]
) -> str:
    """Return the table of a step's n images (paths, or `row N`) as CSV, least certain first.

    The prediction is over the c ``classes`` of the step; ``weight`` (n,) is that with which each image entered the
    statistics, ``corrected`` are the rows that a person looked at.
    """
    confidence, rejected = prediction.fused.max(axis=1), prediction.rejected
    if prediction.unknown is not None:
        confidence = np.where(rejected, prediction.unknown, confidence)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in np.argsort(confidence, kind="stable"):  # of equally certain ones the first leads
        says = [UNKNOWN_CLASS if rejected[row] else classes[prediction.fused[row].argmax()], _rounded(confidence[row])]
        for branch in (prediction.klda, prediction.clip):
            says += [classes[branch[row].argmax()], _rounded(branch[row].max())]
        writer.writerow([images[row], *says, _rounded(weight[row]), "yes" if row in corrected else ""])
    return text.getvalue()


def step_figures(
    prediction: Prediction, classes: Sequence[str], before: dict[str, Any] | None, *, corrected: int
) -> dict[str, Any]:
    """Return figures of a step's images, none of which needs a label; ``before`` are those of the step before.

    ``shares`` of the classes, and of `unknown` where images are rejected, among the answers; ``mean_confidence``;
    ``agreement``, the share of images for which both branches name the same class; ``estimated_accuracy``, of the share
    of right labels: the mean certainty of both branches, each by its entropy weight of eq. (18) (KLDA's is too high on
    far shifts, CLIP's too low on near ones; docs/how-to/streams.md says how good the estimate is where labels exist);
    ``drift`` against the step before: total variation distance of the shares (0 to 1), difference of mean confidence.
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
    if before is not None:
        # sorted: a set has another order in every process, and the sum would differ in its last bit
        names = sorted({*shares, *before["shares"]})
        moved = [abs(shares.get(n, 0.0) - before["shares"].get(n, 0.0)) for n in names]
        figures["drift"] = {
            "shares": _rounded(sum(moved) / 2),
            "mean_confidence": _rounded(figures["mean_confidence"] - before["mean_confidence"]),
        }
    return figures


def _rounded(value: float | np.floating) -> float:
    return round(float(value), DIGITS)
