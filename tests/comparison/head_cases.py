"""Build seeds, small heads and batches for the tests of the head-only baselines."""

import torch

from comparison.shifted_domains import ShiftedDomains
from pipeline.comparison.heads.training import GrowingHead, HeadTask, TrainingBatch, new_head
from pipeline.comparison.methods import head

HEADS = [*head.METHODS]
C, PER_TASK, WIDTH = 6, 2, 32


def shifted_seed(*, noise=1.0, rows=30, tasks=C // PER_TASK):
    """Return a seed with ``rows`` rows per class in source, target and test, and the labels of the test rows."""
    n = PER_TASK * tasks * rows
    domains = ShiftedDomains(3, (PER_TASK,) * tasks, d=WIDTH, n=n, tests=n, noise=noise, shift=0.3)
    return domains.build(), domains.test_y


def small_head(classes=3, width=5, d=4):
    """Return a head in double precision with nonzero biases."""
    generator = torch.Generator().manual_seed(1)
    parameters = new_head(d, generator, width=width).grown(classes, generator).parameters
    noisy = {n: t.detach() + 0.3 * torch.randn(t.shape, generator=generator) for n, t in parameters.items()}
    return GrowingHead({name: t.double().requires_grad_() for name, t in noisy.items()})


def move(head, change):
    """Add a number, or the result of a function of the tensor, to every parameter of a head."""
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
    """Return the method with a generator, which `run_head` would set."""
    method.generator = torch.Generator().manual_seed(0)
    return method
