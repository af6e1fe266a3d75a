"""A small made-up problem: seven classes in three tasks, a shifted target, a weak CLIP."""

import numpy as np

from pipeline.method.adaptation import Referee, adapt_tasks
from pipeline.method.kernel_rows import kernel_rows
from pipeline.method.prediction import predict
from pipeline.method.random_fourier_features import deviations, draw_basis
from pipeline.method.rows import TargetTask, UnlabelledRows
from pipeline.method.source_model import fit_source
from pipeline.method.zero_shot import cosines

TASKS = [np.array([0, 1]), np.array([2, 3]), np.array([4, 5, 6])]
M, d, SCALE = 7, 10, 40.0
VIEWS = ("original", "zeros", "rand")


class Problem:
    """Seven classes in two domains: the target is a shifted, noisier source; CLIP is weak."""

    def __init__(self, seed, D=16, n=84):
        rng = np.random.default_rng(seed)
        centres = 2 * rng.normal(size=(M, d))
        self.basis = draw_basis(d, D, 1.0, "bandwidth", seed)
        self.source_y = np.arange(n) % M
        self.source_x = centres[self.source_y] + rng.normal(size=(n, d))
        self.source_views = dict.fromkeys(VIEWS, self.source_x)
        shift = 0.7 * rng.normal(size=d)
        texts = rng.normal(size=(M, 5))

        def target(count):
            y = np.arange(count) % M
            x = centres[y] + shift + 1.2 * rng.normal(size=(count, d))
            views = {name: x + 0.2 * k * rng.normal(size=x.shape) for k, name in enumerate(VIEWS)}
            return y, views, cosines(texts[y] + 0.7 * rng.normal(size=(count, 5)), texts)

        self.y, self.views, self.cosines = target(n)
        self.test_y, self.test_views, self.test_cosines = target(35)

    def tasks(self):
        for classes in TASKS:
            rows = np.isin(self.y, classes)
            views = {name: x[rows] for name, x in self.views.items()}
            yield TargetTask(views, self.cosines[rows], classes=classes)

    def sources(self, options):
        return list(fit_source(self.basis, self.source_views, self.source_y, TASKS, options))

    def adapted(self, options, sources=None, **how):
        sources = sources or self.sources(options)
        return adapt_tasks(Referee(self.basis, options, SCALE, **how), self.tasks(), sources)

    def z(self, x):
        return list(deviations(self.basis, x).astype(np.float64) + self.basis.pivot)

    def oracle_tasks(self):
        for task in self.tasks():
            views = [self.z(task.views[name]) for name in VIEWS]
            yield task.classes.tolist(), views, task.cosines.tolist()

    def predictions(self, options, sources, adapted):
        test = UnlabelledRows(self.test_views, self.test_cosines)
        features = kernel_rows(self.basis, test, options.clip_in_kernel)
        classifiers = [after and after.classifier for after in adapted]
        return [
            predict(features, self.test_cosines, source, classifier, options, SCALE)
            for source, classifier in zip(sources, classifiers, strict=True)
        ]
