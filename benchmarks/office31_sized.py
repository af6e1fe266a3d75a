"""Build a random problem of Office-31's size in memory: 31 classes in 5 tasks, 2,500 source rows, 700 target images."""

from __future__ import annotations

import numpy as np

from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.rows import TargetTask, UnlabelledRows
from pipeline.method.zero_shot import cosines
from pipeline.problem.seed import Seed, Source, Target

CLASSES, WIDTH, VIEWS = 31, 768, ("original", "zeros", "rand")
TASKS = np.split(np.arange(CLASSES), [6, 12, 18, 24])


def random_seed(D: int, *, source: int = 2500, target: int = 700, test: int = 93) -> Seed:
    """Return a seed with D features: the target is a shifted source, classes overlap, CLIP is weak."""
    rng = np.random.default_rng(0)
    centres, shift = rng.normal(size=(CLASSES, WIDTH)), 0.4 * rng.normal(size=WIDTH)
    texts = rng.normal(size=(CLASSES, 64))

    def rows(n: int, offset: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        y = np.sort(np.arange(n) % CLASSES)
        return (centres[y] + offset + 6 * rng.normal(size=(n, WIDTH))).astype(np.float32), y

    def clip_cosines(y: np.ndarray) -> np.ndarray:
        return cosines(texts[y] + 1.5 * rng.normal(size=(len(y), 64)), texts)

    source_x, source_y = rows(source, 0.0)
    target_x, target_y = rows(target, shift)
    test_x, test_y = rows(test, shift)
    noise = {view: 0.5 * k * rng.normal(size=target_x.shape) for k, view in enumerate(VIEWS)}
    views = {view: (target_x + noise[view]).astype(np.float32) for view in VIEWS}
    images = UnlabelledRows(views, clip_cosines(target_y))
    tasks = []
    for classes in TASKS:
        task = images.take(np.flatnonzero(np.isin(target_y, classes)))
        tasks.append(TargetTask(classes=classes, views=task.views, cosines=task.cosines))
    test_rows = UnlabelledRows(dict.fromkeys(VIEWS, test_x), clip_cosines(test_y))
    return Seed(
        number=0,
        basis=draw_basis(WIDTH, D, 1e-4, "gamma", 0),
        source=Source(dict.fromkeys(VIEWS, source_x), source_y),
        target=Target(tasks, test_rows, clip_scale=30.0),
    )
