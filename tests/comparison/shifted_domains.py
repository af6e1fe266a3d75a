"""Build small seeds for tests of the method and its peers: the target is a shifted source, and CLIP is weak."""

import numpy as np

from pipeline.method.adaptation import Referee, adapt_tasks
from pipeline.method.fusion import PseudoLabels
from pipeline.method.kernel_rows import kernel_rows
from pipeline.method.prediction import predict
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.rows import TargetTask, UnlabelledRows
from pipeline.method.source_model import fit_source
from pipeline.method.zero_shot import cosines
from pipeline.problem.seed import Seed, Source, Target

VIEWS = ("original", "zeros", "rand")


class ShiftedDomains:
    """C classes in tasks of given sizes, with rows (n, d); the true labels stay out of the seeds."""

    def __init__(self, seed, sizes=(2, 2, 3), *, d=10, n=84, tests=70, noise=1.0, shift=0.7, nonnegative=False):
        rng = np.random.default_rng(seed)
        C = sum(sizes)
        self.sizes, self.seed = sizes, seed
        self.centres, self.texts = 2 * rng.normal(size=(C, d)), rng.normal(size=(C, 5))
        self.shift, self.noise, self.nonnegative = shift * rng.normal(size=d), noise, nonnegative
        self.source_y = rng.permutation(np.arange(n) % C)
        self.source_x = self._rows(rng, self.source_y, 0.0)
        self.y, self.test_y = rng.permutation(np.arange(n) % C), np.arange(tests) % C
        self.x, self.test_x = self._rows(rng, self.y, 1.0), self._rows(rng, self.test_y, 1.0)
        self.clip, self.test_clip = self._clip(rng, self.y), self._clip(rng, self.test_y)
        self.source_clip = self._clip(rng, self.source_y)

    def _rows(self, rng, y, share):
        noise = self.noise * rng.normal(size=(len(y), len(self.shift)))
        x = self.centres[y] + share * self.shift + noise
        return np.maximum(x + 1.0, 0) if self.nonnegative else x

    def _clip(self, rng, y):
        return self.texts[y] + 0.7 * rng.normal(size=(len(y), 5))

    @property
    def tasks(self):
        stops = np.cumsum(self.sizes)
        return [np.arange(stop - size, stop) for stop, size in zip(stops, self.sizes, strict=True)]

    @property
    def test_tasks(self):
        return np.repeat(np.arange(len(self.sizes)), self.sizes)[self.test_y]

    def build(self, number=None, *, D=16, clip=False):
        """Return a new Seed with copies of all rows, with CLIP's embeddings if ``clip``."""

        def embeddings(x, clip_rows):
            noise = 0.2 * np.random.default_rng(self.seed).normal(size=x.shape)
            views = {view: x + k * noise for k, view in enumerate(VIEWS)}
            return {"views": views, "clip": clip_rows if clip else None}

        train = UnlabelledRows(cosines=cosines(self.clip, self.texts), **embeddings(self.x, self.clip))
        parts = [train.take(np.flatnonzero(mask)) for mask in self.task_masks()]
        tasks = [TargetTask(**vars(rows), classes=classes) for rows, classes in zip(parts, self.tasks, strict=True)]
        test = UnlabelledRows(cosines=cosines(self.test_clip, self.texts), **embeddings(self.test_x, self.test_clip))
        basis = draw_basis(len(self.shift), D, 1.0, "bandwidth", self.seed, d_clip=5 if clip else 0)
        source = Source(labels=self.source_y.copy(), **embeddings(self.source_x, self.source_clip))
        target = Target(tasks, test, 40.0, self.texts if clip else None)
        return Seed(self.seed if number is None else number, basis, source, target)

    def task_masks(self):
        return [np.isin(self.y, classes) for classes in self.tasks]

    def with_labels(self, labels, weights=None, kept=None):
        """Return a new Seed with these pseudo-labels (n,), weights and gate for the target's train rows."""
        weights = np.ones(len(self.y)) if weights is None else weights
        kept = np.ones(len(self.y), dtype=bool) if kept is None else kept
        pseudo = [
            PseudoLabels(labels[rows], np.zeros((int(rows.sum()), 0)), weights[rows], kept[rows])
            for rows in self.task_masks()
        ]
        seed = self.build()
        seed.shared("first labels", lambda: pseudo)
        return seed

    def source_rows(self):
        """Return (classes, rows, labels, weights) of each source task, the input of the oracles."""
        masks = [np.isin(self.source_y, classes) for classes in self.tasks]
        return [
            (classes, self.source_x[mask], self.source_y[mask], np.ones(mask.sum()))
            for classes, mask in zip(self.tasks, masks, strict=True)
        ]

    def target_rows(self, pseudo):
        """Return (classes, rows, labels, weights) of each target task, given its `PseudoLabels`."""
        return [
            (classes, self.x[mask][p.kept], p.label[p.kept], p.weight[p.kept])
            for classes, mask, p in zip(self.tasks, self.task_masks(), pseudo, strict=True)
        ]


def sources_of(seed, options):
    """Return the source model after each task of a seed."""
    source = seed.source
    return list(fit_source(seed.basis, source.views, source.labels, seed.tasks, options, clip=source.clip))


def adapted_to(seed, options, sources=None, **fields):
    """Adapt to the tasks of a seed by `adapt_tasks`; ``fields`` are further fields of its `Referee`."""
    referee = Referee(seed.basis, options, seed.target.clip_scale, **fields)
    return adapt_tasks(referee, seed.target.tasks, sources or sources_of(seed, options))


def predicted(seed, options, sources, classifiers):
    """Return the predictions of a seed's test rows after each task."""
    test = seed.target.test
    features = kernel_rows(seed.basis, test, options.clip_in_kernel)
    return [
        predict(features, test.cosines, source, classifier, options, seed.target.clip_scale)
        for source, classifier in zip(sources, classifiers, strict=True)
    ]
