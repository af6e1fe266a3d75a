"""Draw imbalanced samples of a suite of imported features, and measure how much accuracy imbalance costs each method.

    python -m benchmarks.imbalanced [--balanced] SEED FROM TO
    python -m benchmarks.imbalanced cost FROM FIRST LAST [METHOD ...]

FROM contains vision.npz and clip_space.npz, as for suites/pacs3.yaml. Files of the same names with fewer rows are
written to TO. In every domain the shares of the classes are geometric from 1 to 0.15, in a random order per domain.
With --balanced every class has the mean of these shares, which gives the same number of images.

`cost` makes draws FIRST to LAST both imbalanced and balanced, with the same number of images. A tenth of every class is
held out. A method is tested on these images, which may be few, and on all images that are not in the draw. There are
two measures, averaged over tasks and problems, in percent: accuracy if the classes have the shares of the draw (what
A_T estimates), and the mean accuracy per class, which does not depend on the composition of the test images. ± is the
standard error over the draws. Each draw has one seed, and both forms of a draw have the same basis.

Two rows are not methods, because they use true labels: ``labelled-target``, and ``true-shares``, which is `calibrated`
with the true shares of the classes in the alignment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from pipeline.comparison.referee_variants import predict_test, referee_of, source_models
from pipeline.comparison.registry import compared_method
from pipeline.errors import RefereeError
from pipeline.method.adaptation import adapt_task
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.rows import TargetTask, UnlabelledRows, unit_rows
from pipeline.method.task_statistics import empty_statistics
from pipeline.method.variants import CALIBRATED
from pipeline.problem.seed import Seed, Source, Target

VIEWS = {"original": "original", "zeros": "zeros", "rand": "rand_matched"}
LEAST = 0.15  # share of the rarest class
TEST_FRACTION, PER_TASK, D, SIGMA = 0.1, 2, 1000, 1e-4
PEERS = (
    *("nearest-class-mean", "streaming-lda", "ranpac", "fecam", "transclip", "stata", "zlap"),
    *("ranpac-10000", "loranpac"),
)
METHODS = (
    *("labelled-target", "true-shares", "calibrated", "no_weighting", "paper", "released", "source_only"),
    *("clip_zero_shot", *PEERS, *(f"{peer}-pseudo" for peer in PEERS)),
)


def kept_rows(paths: np.ndarray, seed: int, *, balanced: bool = False) -> np.ndarray:
    """Return a mask of the rows to keep, given their paths DOMAIN/CLASS/FILE."""
    domain, label = np.array([path.split("/")[:2] for path in paths]).T
    rng, classes, keep = np.random.default_rng(seed), np.unique(label), np.zeros(len(paths), bool)
    for name in np.unique(domain):
        shares = np.geomspace(1, LEAST, len(classes))[rng.permutation(len(classes))]
        if balanced:
            shares[:] = shares.mean()
        for c, share in zip(classes, shares, strict=True):
            rows = np.flatnonzero((domain == name) & (label == c))
            keep[rng.permutation(rows)[: round(share * len(rows))]] = True
    return keep


def resample(seed: int, source: Path, target: Path, *, balanced: bool = False) -> None:
    """Write the sample of ``source`` to ``target``."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ("vision.npz", "clip_space.npz"):
        arrays = dict(np.load(source / name))
        keep = kept_rows(arrays["paths"], seed, balanced=balanced)
        sample = {
            key: values[keep] if values.ndim and len(values) == len(keep) else values for key, values in arrays.items()
        }
        np.savez(target / name, **sample)


class Features:
    """Rows of all domains, their classes and CLIP's cosines."""

    def __init__(self, folder: Path) -> None:
        vision, clip = (np.load(folder / name) for name in ("vision.npz", "clip_space.npz"))
        self.paths = vision["paths"]
        self.domain, label = np.array([path.split("/")[:2] for path in self.paths]).T
        names = sorted(set(label))
        self.labels = np.searchsorted(names, label)
        self.views = {view: vision[key] for view, key in VIEWS.items()}
        self.clip = clip["original"]
        self.text = clip["text"][[list(clip["class_names"]).index(name) for name in names]]
        self.cosines = unit_rows(self.clip) @ unit_rows(self.text).T
        self.scale = float(clip["logit_scale"])
        tasks = max(1, len(names) // PER_TASK)  # remaining classes join the last task
        self.tasks = np.split(np.arange(len(names)), PER_TASK * np.arange(1, tasks))

    def train(self, draw: int, *, balanced: bool) -> np.ndarray:
        """Return a mask of the train rows of a draw."""
        kept, rng = kept_rows(self.paths, draw, balanced=balanced), np.random.default_rng(draw)
        train = np.zeros(len(kept), bool)
        for name in np.unique(self.domain):
            for c in range(len(self.text)):
                rows = rng.permutation(np.flatnonzero(kept & (self.domain == name) & (self.labels == c)))
                train[rows[max(1, round(TEST_FRACTION * len(rows))) :]] = True
        return train

    def rows(self, index: np.ndarray) -> dict[str, object]:
        """Return the fields of `UnlabelledRows` at the indices."""
        views = {view: rows[index] for view, rows in self.views.items()}
        return {"views": views, "cosines": self.cosines[index], "clip": self.clip[index]}

    def seed(self, number: int, source: np.ndarray, target: np.ndarray, test: np.ndarray) -> Seed:
        """Return a seed with the source, target train and target test rows at the indices."""
        tasks = [
            TargetTask(**self.rows(target[np.isin(self.labels[target], classes)]), classes=classes)
            for classes in self.tasks
        ]
        views = {view: rows[source] for view, rows in self.views.items()}
        return Seed(
            number,
            draw_basis(self.views["original"].shape[1], D, SIGMA, "gamma", number, d_clip=self.clip.shape[1]),
            Source(views, self.labels[source], self.clip[source]),
            Target(tasks, UnlabelledRows(**self.rows(test)), self.scale, self.text),
        )


def with_true_shares(seed: Seed, shares: np.ndarray) -> np.ndarray:
    """Return the final predictions of `calibrated` if the alignment knows the shares (C,) of the classes."""
    referee = referee_of(seed, CALIBRATED)
    statistics, classifiers = empty_statistics(referee.basis, CALIBRATED), []
    for task, source in zip(seed.target.tasks, source_models(seed, CALIBRATED), strict=True):
        task_shares = shares[task.classes] / shares[task.classes].sum()
        with mock.patch("pipeline.method.adaptation.expected_shares", lambda _, expected=task_shares: expected):
            statistics, adapted = adapt_task(referee, task, source, statistics)
        classifiers.append(adapted.classifier)
    return predict_test(seed, CALIBRATED, classifiers)[-1]


def measured(data: Features, draw: int, methods: list[str], *, balanced: bool) -> Iterator[list[tuple[float, float]]]:
    """Yield both measures of each method, for one problem of a draw after another."""
    train = data.train(draw, balanced=balanced)
    for name in np.unique(data.domain):
        target, test = (np.flatnonzero((data.domain == name) & mask) for mask in (train, ~train))
        truth, shares = data.labels[test], np.bincount(data.labels[target], minlength=len(data.text))
        for other in np.unique(data.domain[data.domain != name]):
            seed = data.seed(draw, np.flatnonzero((data.domain == other) & train), target, test)
            ceiling = data.seed(draw, target, target, test)
            scores = []
            for method in methods:
                try:
                    if method == "true-shares":
                        predicted = with_true_shares(seed, shares)
                    else:
                        predicted = compared_method(method).run(ceiling if method == "labelled-target" else seed)[-1]
                except RefereeError:  # for example `paper`, if a class has too little weight for eq. (17)
                    scores.append((np.nan, np.nan))
                    continue
                per_class = np.array([(predicted == truth)[truth == c].mean() for c in range(len(shares))])
                tasks = [(np.average(per_class[t], weights=shares[t]), per_class[t].mean()) for t in data.tasks]
                scores.append(tuple(100 * np.mean(tasks, axis=0)))
            yield scores


def cell(values: np.ndarray) -> str:
    """Return the mean over the draws ± its standard error, or "fails" if the method could not run on a draw."""
    if np.isnan(values).any():
        return "fails"
    return f"{values.mean():.1f} ± {values.std(ddof=1) / np.sqrt(len(values)):.1f}"


def cost(folder: Path, draws: range, methods: list[str]) -> None:
    """Print a row per method: both measures on balanced and imbalanced draws, and their paired difference."""
    data, by_draw = Features(folder), []
    for draw in draws:
        forms = [np.mean(list(measured(data, draw, methods, balanced=balanced)), axis=0) for balanced in (True, False)]
        by_draw.append(forms)
        sys.stderr.write(f"draw {draw} done\n")
    scores = np.array(by_draw)  # (draws, balanced or imbalanced, methods, measures)
    print("| method | balanced | imbalanced | loss | per class: balanced | imbalanced | loss |\n|---|" + "---:|" * 6)
    for m, method in enumerate(methods):
        pairs = [(scores[:, 0, m, i], scores[:, 1, m, i]) for i in (0, 1)]
        cells = [cell(values) for left, right in pairs for values in (left, right, left - right)]
        print(f"| {method} | {' | '.join(cells)} |")


if __name__ == "__main__":
    if sys.argv[1] == "cost":
        cost(Path(sys.argv[2]), range(int(sys.argv[3]), int(sys.argv[4]) + 1), sys.argv[5:] or list(METHODS))
    else:
        *flag, seed, source, target = sys.argv[1:]
        resample(int(seed), Path(source), Path(target), balanced=flag == ["--balanced"])
