"""A made-up problem of Office-31's size, in memory: 31 classes in 5 tasks, 2,500 source rows, 700 target images."""

from __future__ import annotations

import numpy as np

from pipeline.comparison.problem import SeedProblem, SourceRows, TestRows
from pipeline.method.adaptation import TargetTask
from pipeline.method.random_fourier_features import Basis

CLASSES, WIDTH, VIEWS = 31, 768, ("original", "zeros", "rand")
TASKS = np.split(np.arange(CLASSES), [6, 12, 18, 24])


def made_up(basis: Basis, *, source: int = 2500, target: int = 700, test: int = 93) -> SeedProblem:
    """Return a problem whose target is a shifted source; classes overlap, CLIP is weak."""
    rng = np.random.default_rng(0)
    centres, shift = rng.normal(size=(CLASSES, WIDTH)), 0.4 * rng.normal(size=WIDTH)
    texts = rng.normal(size=(CLASSES, 64))

    def rows(n: int, moved: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        y = np.sort(np.arange(n) % CLASSES)
        return (centres[y] + moved + 6 * rng.normal(size=(n, WIDTH))).astype(np.float32), y

    def cosines(y: np.ndarray) -> np.ndarray:
        seen = texts[y] + 1.5 * rng.normal(size=(len(y), 64))
        unit = [a / np.linalg.norm(a, axis=1, keepdims=True) for a in (seen, texts)]
        return unit[0] @ unit[1].T

    source_x, source_y = rows(source, 0.0)
    target_x, target_y = rows(target, shift)
    test_x, test_y = rows(test, shift)
    views = {
        view: (target_x + 0.5 * k * rng.normal(size=target_x.shape)).astype(np.float32)
        for k, view in enumerate(VIEWS)
    }
    said = cosines(target_y)
    tasks = [
        TargetTask(classes, {v: x[mine] for v, x in views.items()}, said[mine])
        for classes in TASKS
        for mine in [np.isin(target_y, classes)]
    ]
    return SeedProblem(
        basis=basis,
        source=SourceRows(dict.fromkeys(VIEWS, source_x), source_y),
        target=tasks,
        test=TestRows({"original": test_x}, cosines(test_y)),
        clip_scale=30.0,
        seed=0,
    )
