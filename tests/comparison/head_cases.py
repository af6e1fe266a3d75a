"""Problems, small heads and batches that the tests of the head-only baselines share."""

import numpy as np
import torch

from pipeline.comparison.head_training.growing_head import GrowingHead, new_head
from pipeline.comparison.head_training.task_rows import Batch, TaskRows
from pipeline.comparison.problem import SeedProblem, SourceRows, TestRows
from pipeline.method.adaptation import TargetTask
from pipeline.method.continual_metrics import accuracy_matrix, final_accuracy, forgetting
from pipeline.method.random_fourier_features import draw_basis

NAMES = ["ewc", "lwf", "si", "mas", "rwalk", "icarl", "eeil", "il2m", "dann"]
HEADS = [f"{name}-head" for name in NAMES]
C, PER_TASK, WIDTH = 6, 2, 32


def shifted_problem(*, seed=0, noise=0.15, shift=0.3, rows=30):
    """Return classes around orthogonal means, the target moved by one vector, and the labels of the test rows."""
    rng = np.random.default_rng(3)
    directions = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
    labels = np.repeat(np.arange(C), rows)

    def draw(offset):
        return directions[labels] + offset + noise * rng.normal(size=(len(labels), WIDTH))

    moved = shift * directions[C]
    source, target, test = draw(0.0), draw(moved), draw(moved)
    tasks = [np.arange(c, c + PER_TASK) for c in range(0, C, PER_TASK)]
    problem = SeedProblem(
        draw_basis(WIDTH, 8, 1.0, "gamma", 0),
        SourceRows({"original": source}, labels),
        [target_task(task, target[np.isin(labels, task)]) for task in tasks],
        TestRows({"original": test}, np.zeros((len(labels), C))),
        1.0,
        seed,
    )
    return problem, labels


def target_task(classes, rows):
    return TargetTask(classes, {"original": rows}, np.zeros((len(rows), C)))


def scores(predictions, labels):
    accuracy = accuracy_matrix(predictions, labels, labels // PER_TASK)
    return final_accuracy(accuracy), forgetting(accuracy)


def small_head(classes=3, width=5, d=4, dtype=torch.float64):
    """Return a head in double precision, with biases that are not zero."""
    generator = torch.Generator().manual_seed(1)
    drawn = new_head(d, generator, width=width).grown(classes, generator).parameters
    noisy = {
        n: t.detach() + 0.3 * torch.randn(t.shape, generator=generator) for n, t in drawn.items()
    }
    return GrowingHead({name: t.to(dtype).requires_grad_() for name, t in noisy.items()})


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def some_rows(x, y, *, first, seen, target=None):
    return TaskRows(x, y, x[:0] if target is None else target, first, seen)


def whole_batch(rows, progress=0.5):
    return Batch(torch.arange(len(rows.x)), rows.x, rows.y, progress)


def strong(method, strength):
    method.strength = strength
    return method
