"""Seeds, small heads and batches that the tests of the head-only baselines share."""

import numpy as np
import torch

from pipeline.comparison.heads.training import GrowingHead, HeadTask, TrainingBatch, new_head
from pipeline.comparison.methods import head
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.rows import TargetTask, UnlabelledRows
from pipeline.problem.seed import Seed, Source, Target

HEADS = [*head.METHODS]
C, PER_TASK, WIDTH = 6, 2, 32


def shifted_seed(*, noise=0.15, shift=0.3, rows=30, tasks=C // PER_TASK):
    """Return classes around orthogonal means, the target moved by one vector, and the labels of the test rows."""
    rng = np.random.default_rng(3)
    directions = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
    labels = np.repeat(np.arange(C), rows)

    def draw(offset):
        return directions[labels] + offset + noise * rng.normal(size=(len(labels), WIDTH))

    moved = shift * directions[C]
    source, target, test = draw(0.0), draw(moved), draw(moved)
    classes = [np.arange(c, c + PER_TASK) for c in range(0, PER_TASK * tasks, PER_TASK)]
    seed = Seed(
        0,
        draw_basis(WIDTH, 8, 1.0, "gamma", 0),
        Source({"original": source}, labels),
        Target(
            [target_task(task, target[np.isin(labels, task)]) for task in classes],
            UnlabelledRows(views={"original": test}, cosines=np.zeros((len(labels), C))),
            1.0,
        ),
    )
    return seed, labels


def target_task(classes, x):
    return TargetTask(classes=classes, views={"original": x}, cosines=np.zeros((len(x), C)))


def small_head(classes=3, width=5, d=4):
    """Return a head in double precision, with biases that are not zero."""
    generator = torch.Generator().manual_seed(1)
    parameters = new_head(d, generator, width=width).grown(classes, generator).parameters
    noisy = {n: t.detach() + 0.3 * torch.randn(t.shape, generator=generator) for n, t in parameters.items()}
    return GrowingHead({name: t.double().requires_grad_() for name, t in noisy.items()})


def move(head, change):
    """Add a number, or what a function of each tensor returns, to every parameter of a head."""
    with torch.no_grad():
        for tensor in head.parameters.values():
            tensor.add_(change(tensor) if callable(change) else change)


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def rows_of(x, y, *, first, classes_seen, target=None):
    return HeadTask(x, y, x[:0] if target is None else target, first, classes_seen)


def small_task(n=40):
    x = drawn(n, 4)
    return rows_of(x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long(), first=0, classes_seen=3)


def whole_batch(rows, progress=0.5):
    return TrainingBatch(torch.arange(len(rows.x)), rows.x, rows.y, progress)


def seeded(method):
    """Give a method the generator that `run_head` would give it."""
    method.generator = torch.Generator().manual_seed(0)
    return method
