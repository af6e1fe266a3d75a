"""What the head-only baselines share: the growing head, the training loop, one thread."""

import math
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import torch

from comparison.head_cases import PER_TASK, WIDTH, drawn, rows_of, seeded, shifted_seed, small_head
from pipeline.comparison.heads.training import (
    FineTuning,
    Training,
    draw_rows,
    head_input,
    head_tasks,
    single_thread,
    train,
)


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_one_thread_inside_and_the_old_number_afterwards_even_side_by_side():
    both_inside, one_left = (Barrier(2, timeout=30) for _ in range(2))

    def inside(number):
        with single_thread():
            both_inside.wait()
            numbers = [torch.get_num_threads()]
            if number:  # the other one leaves first
                one_left.wait()
                numbers.append(torch.get_num_threads())
        if not number:
            one_left.wait()
        return numbers

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(inside, range(2))) == [[1], [1, 1]]
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 3
    with pytest.raises(RuntimeError, match="inside"), single_thread():
        raise RuntimeError("inside")
    assert torch.get_num_threads() == 3


def test_a_head_grows_by_rows_and_keeps_the_others():
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
    seed, labels = shifted_seed()
    x = seed.source.views["original"]
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    centred = unit - unit[labels < PER_TASK].mean(axis=0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True) * math.sqrt(WIDTH)
    tasks = list(head_tasks(seed))
    np.testing.assert_allclose(torch.cat([t.x for t in tasks]), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(torch.cat([t.y for t in tasks]), labels)
    assert [(t.first, t.classes_seen) for t in tasks] == [(0, 2), (2, 4), (4, 6)]
    assert torch.equal(head_input(np.zeros((1, 3)), np.zeros(3)), torch.zeros(1, 3))


def test_a_pass_takes_every_row_once():
    batches = draw_rows(5, 2, torch.Generator().manual_seed(0))
    first, second = ([next(batches) for _ in range(3)] for _ in range(2))
    assert [len(b) for b in first] == [2, 2, 1]
    assert sorted(torch.cat(first).tolist()) == list(range(5))
    assert torch.cat(first).tolist() != torch.cat(second).tolist()


@pytest.mark.parametrize("steps", [3, 7])
def test_a_large_task_gets_its_passes_and_a_small_one_its_steps(steps):
    taken = []

    class Counting(FineTuning):
        def after_step(self, head, rows, step):
            taken.append((len(step.batch.index), step.batch.progress))

    rows = rows_of(drawn(40, 4), torch.arange(40) % 3, first=0, classes_seen=3)
    train(seeded(Counting()), small_head(), rows, Training(steps=steps, passes=2, batch=16))
    expected = max(steps, 6)
    assert [size for size, _ in taken] == ([16, 16, 8] * 3)[:expected]
    assert [progress for _, progress in taken] == [i / expected for i in range(expected)]
