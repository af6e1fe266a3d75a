"""Test all head-only baselines and their common parts: the growing head, the training loop, the single thread."""

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import numpy as np
import pytest
import torch

from comparison.head_cases import (
    HEADS,
    PER_TASK,
    WIDTH,
    drawn,
    rows_of,
    seeded,
    shifted_seed,
    small_head,
    small_task,
    whole_batch,
)
from pipeline.comparison.heads.training import FineTuning, Training, head_input, head_tasks, single_thread, train
from pipeline.comparison.registry import compared_method
from pipeline.errors import InputError
from pipeline.method.continual_metrics import accuracy_matrix, final_accuracy
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
    accuracy = accuracy_matrix(predictions, labels, labels // PER_TASK)
    assert final_accuracy(accuracy) > 0.6  # chance 1/6, last task alone 1/3
    assert method.group == "head"
    assert method.source_samples

    x, y, last = seed.source.views["original"].copy(), seed.source.labels, seed.target.tasks[-1]
    x[y >= 2 * PER_TASK] = 0.0
    tasks = [*seed.target.tasks[:-1], replace(last, views={"original": -last.views["original"]})]
    repeated = method.run(with_rows(seed, x, y, tasks))
    np.testing.assert_array_equal(predictions[:2], repeated[:2])


@pytest.fixture
def three_threads():
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(threads)


@EVERY_HEAD
@pytest.mark.usefixtures("three_threads")
def test_predictions_depend_only_on_the_seed_and_no_global_state_changes(name):
    seed, _ = shifted_seed(noise=9.0, tasks=2)  # noisy enough that another draw of the head changes predictions
    run = compared_method(name).run
    state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002  the global state is under test
    first = run(seed)
    assert torch.get_num_threads() == 3
    assert torch.equal(torch.get_rng_state(), state[0])
    np.testing.assert_array_equal(np.random.get_state()[1], state[1])  # noqa: NPY002
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        torch.manual_seed(123)
        np.testing.assert_array_equal(first, run(seed))
    other = run(replace(seed, number=7))
    assert any((a != b).any() for a, b in zip(first, other, strict=True))


@EVERY_HEAD
@pytest.mark.parametrize("task", [0, 1])
def test_an_empty_target_task_is_accepted_and_an_empty_source_class_is_refused(name, task):
    seed, labels = shifted_seed(rows=6)
    x, y, tasks = seed.source.views["original"], seed.source.labels, list(seed.target.tasks)
    tasks[task] = tasks[task].take(np.arange(0))
    predictions = compared_method(name).run(with_rows(seed, x, y, tasks))
    assert [p.shape for p in predictions] == [labels.shape] * 3
    kept = y != 2 * task
    with pytest.raises(InputError, match=f"no train row of class {2 * task}"):
        compared_method(name).run(with_rows(seed, x[kept], y[kept], tasks))


def test_methods_other_than_heads_do_not_import_torch():
    code = (
        "import sys; from pipeline.comparison.registry import compared_method\n"
        "assert all(compared_method(name) for name in ('calibrated', 'ranpac', 'fecam-pseudo'))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.usefixtures("three_threads")
def test_single_thread_restores_the_number_of_threads_even_if_two_are_inside():
    entered, first_left = (Barrier(2, timeout=30) for _ in range(2))

    def thread_counts(number):
        with single_thread():
            entered.wait()
            counts = [torch.get_num_threads()]
            if number:  # wait until thread 0 has left
                first_left.wait()
                counts.append(torch.get_num_threads())
        if not number:
            first_left.wait()
        return counts

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(thread_counts, range(2))) == [[1], [1, 1]]
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 3
    with pytest.raises(RuntimeError, match="inside"), single_thread():
        raise RuntimeError("inside")
    assert torch.get_num_threads() == 3


def test_a_grown_head_keeps_its_earlier_rows():
    head = small_head(classes=2)
    grown = head.grown(3, torch.Generator().manual_seed(0))
    x = drawn(7, 4)
    assert grown.logits(x).shape == (7, 5)
    torch.testing.assert_close(grown.logits(x)[:, :2], head.logits(x), rtol=1e-6, atol=1e-6)
    frozen = grown.frozen()
    with torch.no_grad():
        grown.parameters["output_bias"] += 1.0
    torch.testing.assert_close(frozen.logits(x) + 1, grown.logits(x))


def test_the_input_is_centred_on_the_first_tasks_unit_source_rows():
    seed, _ = shifted_seed()
    order = np.argsort(seed.source.labels // PER_TASK, kind="stable")  # task by task
    x, labels = seed.source.views["original"][order], seed.source.labels[order]
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    centred = unit - unit[labels < PER_TASK].mean(axis=0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True) * math.sqrt(WIDTH)
    tasks = list(head_tasks(seed))
    np.testing.assert_allclose(torch.cat([t.x for t in tasks]), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(torch.cat([t.y for t in tasks]), labels)
    assert [(t.first, t.classes_seen) for t in tasks] == [(0, 2), (2, 4), (4, 6)]
    assert torch.equal(head_input(np.zeros((1, 3)), np.zeros(3)), torch.zeros(1, 3))


class RecordedTuning(FineTuning):
    """Fine-tuning that records every step."""

    def __init__(self):
        self.steps = []

    def after_step(self, head, task, step):
        self.steps.append(step)


@pytest.mark.parametrize("steps", [3, 7])
def test_training_takes_the_minimum_steps_and_at_least_the_minimum_passes(steps):
    rows, method = rows_of(drawn(40, 4), torch.arange(40) % 3, first=0, classes_seen=3), seeded(RecordedTuning())
    train(method, small_head(), rows, Training(steps=steps, passes=2, batch=16))
    expected = max(steps, 6)
    batches = [step.batch.index for step in method.steps]
    assert [len(index) for index in batches] == ([16, 16, 8] * 3)[:expected]
    first, second = torch.cat(batches[:3]).tolist(), torch.cat(batches[3:6]).tolist()
    assert sorted(first) == sorted(second) == list(range(40))
    assert first != second
    assert [step.batch.progress for step in method.steps] == [i / expected for i in range(expected)]


def test_a_step_uses_the_penalty_but_records_the_gradient_without_it():
    class PenalisedTuning(RecordedTuning):
        def penalty(self, head):
            return 1e3 * sum((t**2).sum() for t in head.parameters.values())

    head, rows, method = small_head(), small_task(), seeded(PenalisedTuning())
    plain = torch.autograd.grad(method.loss(head, rows, whole_batch(rows)), list(head.parameters.values()))
    start = head.frozen().parameters
    train(method, head, rows, Training(steps=1, passes=0))
    (step,) = method.steps
    torch.testing.assert_close(dict(step.gradient), dict(zip(start, plain, strict=True)))
    torch.testing.assert_close(dict(step.before), start)
    for name, end in head.frozen().parameters.items():
        assert ((end - start[name]) * start[name] <= 0).all()
