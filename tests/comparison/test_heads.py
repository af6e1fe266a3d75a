"""What every head-only baseline promises."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from comparison.head_cases import HEADS, PER_TASK, accuracy_and_forgetting, shifted_seed, target_task
from pipeline.comparison.registry import compared_method
from pipeline.problem.seed import Source

EVERY_HEAD = pytest.mark.parametrize("name", HEADS)


def with_rows(seed, x, labels, tasks):
    target = replace(seed.target, tasks=tasks)
    return replace(seed, source=Source({"original": x}, labels), target=target)


@EVERY_HEAD
def test_a_head_is_far_above_chance_under_a_shift_and_reads_no_later_task(name):
    seed, labels = shifted_seed()
    method = compared_method(name)
    predictions = method.run(seed)
    assert len(predictions) == 3
    for k, predicted in enumerate(predictions):
        assert predicted.shape == labels.shape
        assert np.issubdtype(predicted.dtype, np.integer)
        assert set(predicted) <= set(range(PER_TASK * (k + 1)))
    assert accuracy_and_forgetting(predictions, labels)[0] > 0.7  # chance 1/6, last task alone 1/3
    assert method.group == "head"
    assert method.source_samples

    x, last = seed.source.views["original"].copy(), seed.target.tasks[-1]
    x[labels >= 2 * PER_TASK] = 0.0
    tasks = [*seed.target.tasks[:-1], target_task(last.classes, -last.views["original"])]
    again = method.run(with_rows(seed, x, labels, tasks))
    np.testing.assert_array_equal(predictions[:2], again[:2])


@EVERY_HEAD
def test_the_seed_is_the_only_randomness_and_nothing_global_changes(name):
    # so noisy that another draw of the head predicts otherwise
    seed, _ = shifted_seed(noise=0.6, tasks=2)
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002  it must not change
    run = compared_method(name).run
    try:
        torch.set_num_threads(1)
        first = run(seed)
        torch.manual_seed(123)
        torch.set_num_threads(3)
        again = run(seed)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
        after = torch.get_rng_state()
        torch.set_rng_state(state)
    np.testing.assert_array_equal(first, again)
    assert torch.equal(after, torch.Generator().manual_seed(123).get_state())
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002
    other = run(replace(seed, number=7))
    assert any((a != b).any() for a, b in zip(first, other, strict=True))


def test_methods_other_than_heads_do_not_import_torch():
    code = (
        "import sys; from pipeline.comparison.registry import compared_method\n"
        "assert all(compared_method(name) for name in ('calibrated', 'ranpac', 'fecam-pseudo'))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@EVERY_HEAD
@pytest.mark.parametrize("task", [0, 1])
def test_classes_and_tasks_without_rows_are_accepted(name, task):
    seed, labels = shifted_seed(rows=6)
    kept = ~np.isin(labels, [0, 2 * task, 2 * task + 1])
    tasks = list(seed.target.tasks)
    tasks[task] = target_task(tasks[task].classes, tasks[task].views["original"][:0])
    changed = with_rows(seed, seed.source.views["original"][kept], labels[kept], tasks)
    predictions = compared_method(name).run(changed)
    assert [p.shape for p in predictions] == [labels.shape] * 3
