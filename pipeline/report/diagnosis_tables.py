"""Why the figures of a problem are what they are, as tables for the report: calibration, weights, single images, a map.

Shares are in percent, weights as they are. Each function returns a header and rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.method.evaluation import BRANCHES, Said, Scores
from pipeline.method.principal_plane import principal_plane
from pipeline.method.reliability import BINS, confidence_bins
from pipeline.method.weight_knowledge import weight_bins
from pipeline.report.problem_tables import Csv, Float, Labels, percent

MISTAKES = 12  # most confident ones that are listed
EXAMPLES = 4  # images whose views are shown
RELIABILITY = ("branch", "from", "to", "images", "confidence", "accuracy")
WEIGHTS = ("lowest", "highest", "weight", "images", "accuracy")
SHOWN = (
    *("role", "path", "sha256", "actual", "seed"),
    *(f"{branch}_{what}" for branch in BRANCHES for what in ("says", "confidence")),
)
MAP = ("x", "y", "class", "split", "predicted")


@dataclass(frozen=True)
class SeedPredictions:
    """One seed's test images: their rows in the manifest (n,), their classes (n,), what was said of them."""

    seed: int
    rows: npt.NDArray[np.intp]
    truth: Labels
    said: dict[str, Said]


Shown = tuple[str, SeedPredictions, int]  # why it is shown, whose test image, its place there


def reliability_table(scores: Sequence[Scores], truth: Sequence[Labels]) -> Csv:
    """Return accuracy per bin of confidence, of each branch, all seeds' test images together."""
    rows: list[tuple[object, ...]] = []
    for branch in BRANCHES:
        said = [s.said[branch] for s in scores]
        right = [one.label == labels for one, labels in zip(said, truth, strict=True)]
        counts = confidence_bins(
            np.concatenate([one.confidence for one in said]), np.concatenate(right)
        )
        for b, (n, confidence, hits) in enumerate(counts):
            if n:
                means = percent(confidence / n), percent(hits / n)
                rows.append((branch, percent(b / BINS), percent((b + 1) / BINS), int(n), *means))
    return RELIABILITY, rows


def weights_table(weight: Float, right: npt.NDArray[np.bool_]) -> Csv:
    """Return the accuracy of pseudo-labels per bin of their weight."""
    return WEIGHTS, [
        (*(f"{value:.6g}" for value in (low, high, mean)), int(n), percent(accuracy))
        for low, high, mean, n, accuracy in weight_bins(weight, right)
    ]


def shown_images(tested: Sequence[SeedPredictions]) -> list[Shown]:
    """Return which images the report shows: the most confident mistakes of any seed, and examples of the views."""
    first = tested[0]
    classes = np.unique(first.truth)
    wanted = classes[np.linspace(0, len(classes) - 1, min(EXAMPLES, len(classes))).astype(int)]
    examples = [(first, int(np.flatnonzero(first.truth == label)[0])) for label in wanted]
    return [
        (role, one, i)
        for role, listed in (("mistake", confident_mistakes(tested)), ("example", examples))
        for one, i in listed
    ]


def shown_table(
    chosen: Sequence[Shown], images: Mapping[int, tuple[str, str]], names: Sequence[str]
) -> Csv:
    """Return what is said of the images shown. images: path and sha256 of their rows of the manifest."""
    rows = []
    for role, one, i in chosen:
        told = [
            text
            for branch in BRANCHES
            for said in [one.said[branch]]
            for text in (names[said.label[i]], percent(said.confidence[i]))
        ]
        rows.append((role, *images[int(one.rows[i])], names[one.truth[i]], one.seed, *told))
    return SHOWN, rows


def confident_mistakes(tested: Sequence[SeedPredictions]) -> list[tuple[SeedPredictions, int]]:
    """Return seed and place of the wrong predictions with most confidence, each image once."""
    wrong = [
        (-float(one.said["fused"].confidence[i]), int(one.rows[i]), one, int(i))
        for one in tested
        for i in np.flatnonzero(one.said["fused"].label != one.truth)
    ]
    wrong.sort(key=lambda found: found[:2])
    once: dict[int, tuple[SeedPredictions, int]] = {}
    for _, row, one, i in wrong:
        once.setdefault(row, (one, i))
    return list(once.values())[:MISTAKES]


def map_table(
    x: npt.NDArray[np.floating],
    labels: Labels,
    names: Sequence[str],
    predicted: Sequence[int | None],
) -> Csv:
    """Return images on the plane of their principal components, x (n, d); ``predicted`` is None for train images.

    Coordinates are in standard deviations of the wider axis.
    """
    flat, _ = principal_plane(x)
    unit = float(flat.std(axis=0).max()) or 1.0
    return MAP, [
        (
            *(round(float(value), 3) + 0.0 for value in point / unit),
            names[label],
            "train" if said is None else "test",
            "" if said is None else names[said],
        )
        for point, label, said in zip(flat, labels, predicted, strict=True)
    ]


def sorted_rows(*parts: Iterable[int]) -> npt.NDArray[np.intp]:
    """Return row numbers of several lists as one, in order, each once."""
    return np.unique(np.concatenate([np.asarray(list(part), dtype=np.intp) for part in parts]))
