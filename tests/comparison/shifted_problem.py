"""Small comparison problems: the target is a shifted, rescaled source; CLIP is weak but better than chance."""

import numpy as np

from pipeline.comparison.problem import SeedProblem, SourceRows, TestRows
from pipeline.method.adaptation import PseudoLabels, TargetTask
from pipeline.method.prediction import cosines
from pipeline.method.random_fourier_features import draw_basis

VIEWS = ("original", "zeros", "rand")


class ShiftedProblem:
    """C classes in tasks of given sizes; rows (n, d), nonnegative where asked for; the truth is kept apart."""

    def __init__(
        self,
        seed,
        sizes=(2, 2, 3),
        *,
        d=10,
        n=84,
        tests=70,
        noise=1.0,
        shift=0.7,
        nonnegative=False,
    ):
        rng = np.random.default_rng(seed)
        C = sum(sizes)
        self.sizes, self.seed = sizes, seed
        self.centres, self.texts = 2 * rng.normal(size=(C, d)), rng.normal(size=(C, 5))
        self.shift, self.noise, self.nonnegative = shift * rng.normal(size=d), noise, nonnegative
        self.source_y = rng.permutation(np.arange(n) % C)
        self.source_x = self.rows(rng, self.source_y, 0.0)
        self.y, self.test_y = rng.permutation(np.arange(n) % C), np.arange(tests) % C
        self.x, self.test_x = self.rows(rng, self.y, 1.0), self.rows(rng, self.test_y, 1.0)
        self.cosines, self.test_cosines = self.clip(rng, self.y), self.clip(rng, self.test_y)

    def rows(self, rng, y, moved):
        noise = self.noise * rng.normal(size=(len(y), len(self.shift)))
        x = self.centres[y] + moved * self.shift + noise
        return np.maximum(x + 1.0, 0) if self.nonnegative else x

    def clip(self, rng, y):
        return cosines(self.texts[y] + 0.7 * rng.normal(size=(len(y), 5)), self.texts)

    @property
    def tasks(self):
        stops = np.cumsum(self.sizes)
        return [np.arange(stop - size, stop) for stop, size in zip(stops, self.sizes, strict=True)]

    @property
    def test_tasks(self):
        return np.repeat(np.arange(len(self.sizes)), self.sizes)[self.test_y]

    def build(self, seed=None):
        """Return a fresh SeedProblem, with copies of all rows."""
        target = [
            TargetTask(classes, dict.fromkeys(VIEWS, self.x[rows].copy()), self.cosines[rows])
            for classes in self.tasks
            for rows in [np.isin(self.y, classes)]
        ]
        return SeedProblem(
            basis=draw_basis(len(self.shift), 16, 1.0, "bandwidth", self.seed),
            source=SourceRows(dict.fromkeys(VIEWS, self.source_x.copy()), self.source_y.copy()),
            target=target,
            test=TestRows(dict.fromkeys(VIEWS, self.test_x.copy()), self.test_cosines),
            clip_scale=40.0,
            seed=self.seed if seed is None else seed,
        )

    def given(self, problem, labels, weights=None, kept=None):
        """Have ``problem`` take these pseudo-labels (n,), weights and gate of the target's train rows."""
        weights = np.ones(len(self.y)) if weights is None else weights
        kept = np.ones(len(self.y), dtype=bool) if kept is None else kept
        each = [
            PseudoLabels(labels[rows], np.zeros((int(rows.sum()), 0)), weights[rows], kept[rows])
            for rows in (np.isin(self.y, classes) for classes in self.tasks)
        ]
        problem.shared("first labels", lambda: each)
        return problem

    def source_rows(self):
        """Return (classes, rows, labels, weights) of each source task, as the oracles take them."""
        for classes in self.tasks:
            members = np.isin(self.source_y, classes)
            yield classes, self.source_x[members], self.source_y[members], np.ones(members.sum())

    def target_rows(self, labels):
        """Return the same of the target under pseudo-labels: a list of `PseudoLabels`, one per task."""
        for classes, of_task in zip(self.tasks, labels, strict=True):
            x, kept = self.x[np.isin(self.y, classes)], of_task.kept
            yield classes, x[kept], of_task.label[kept], of_task.weight[kept]
