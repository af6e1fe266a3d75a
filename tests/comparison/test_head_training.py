"""What the head-only baselines share: the growing head, the training loop, one thread."""

import math
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import torch

from comparison.head_cases import PER_TASK, WIDTH, drawn, shifted_problem, small_head, some_rows
from pipeline.comparison.head_training.growing_head import head_input
from pipeline.comparison.head_training.optimisers import Adam, AnnealedMomentum
from pipeline.comparison.head_training.single_thread import single_thread
from pipeline.comparison.head_training.task_rows import draw_rows, tasks_of
from pipeline.comparison.head_training.training_loop import FineTuning, Training, run_head, train


def test_one_thread_inside_and_the_old_number_afterwards_even_side_by_side():
    before = torch.get_num_threads()
    both_inside = Barrier(2, timeout=30)

    def inside(number):
        with single_thread():
            both_inside.wait()
            seen = [torch.get_num_threads()]
            if number:  # the other one leaves first
                left.wait()
                seen.append(torch.get_num_threads())
        if not number:
            left.wait()
        return seen

    left = Barrier(2, timeout=30)
    try:
        torch.set_num_threads(3)
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(inside, range(2))) == [[1], [1, 1]]
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 3
        with pytest.raises(RuntimeError, match="inside"), single_thread():
            raise RuntimeError("inside")
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_training_runs_on_one_thread():
    threads = set()

    class Watching(FineTuning):
        def loss(self, head, rows, batch):
            threads.add(torch.get_num_threads())
            return super().loss(head, rows, batch)

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        run_head(shifted_problem()[0], Watching(Training(steps=2)))
    finally:
        torch.set_num_threads(before)
    assert threads == {1}


def test_a_head_grows_by_rows_and_keeps_the_others():
    head = small_head(classes=2)
    grown = head.grown(3, torch.Generator().manual_seed(0))
    x = drawn(7, 4)
    assert grown.classes == 5
    torch.testing.assert_close(grown.logits(x)[:, :2], head.logits(x), rtol=1e-6, atol=1e-6)
    frozen = grown.frozen()
    with torch.no_grad():
        grown.parameters["output_bias"] += 1.0
    torch.testing.assert_close(frozen.logits(x) + 1, grown.logits(x))


def test_the_input_is_centred_on_the_first_tasks_source_rows_of_length_one():
    problem, labels = shifted_problem()
    rows = problem.source.views["original"]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    centred = unit - unit[labels < PER_TASK].mean(axis=0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True) * math.sqrt(WIDTH)
    tasks = list(tasks_of(problem))
    np.testing.assert_allclose(torch.cat([t.x for t in tasks]), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(torch.cat([t.y for t in tasks]), labels)
    assert [(t.first, t.seen) for t in tasks] == [(0, 2), (2, 4), (4, 6)]
    zero = head_input(np.zeros((1, 3)), np.zeros(3))
    assert torch.equal(zero, torch.zeros(1, 3))


def test_a_pass_takes_every_row_once():
    batches = draw_rows(5, 2, torch.Generator().manual_seed(0))
    first, second = ([next(batches) for _ in range(3)] for _ in range(2))
    assert [len(b) for b in first] == [2, 2, 1]
    assert sorted(torch.cat(first).tolist()) == list(range(5))
    assert torch.cat(first).tolist() != torch.cat(second).tolist()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Adam, lambda p: torch.optim.Adam(p, lr=0.01)),
        (AnnealedMomentum, lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9)),
    ],
)
def test_optimisers_step_as_torchs_own(ours, theirs):
    mine, yours = (drawn(3, 2).requires_grad_() for _ in range(2))
    optimiser, reference = ours([mine], 0.01), theirs([yours])
    for number in range(5):
        gradient = drawn(3, 2, seed=number)
        optimiser.step([gradient], 0.0)
        yours.grad = gradient.clone()
        reference.step()
    torch.testing.assert_close(mine, yours)


def test_momentum_is_annealed_as_dann_says():
    parameter = torch.zeros(1, requires_grad=True)
    AnnealedMomentum([parameter], 0.01).step([torch.ones(1)], 0.5)
    assert parameter.item() == pytest.approx(-0.01 / (1 + 10 * 0.5) ** 0.75)


def test_a_large_task_gets_its_passes_and_a_small_one_its_steps():
    seen = []

    class Counting(FineTuning):
        def after_step(self, head, rows, step):
            seen.append((len(step.batch.rows), step.batch.progress))

    rows = some_rows(drawn(40, 4), torch.arange(40) % 3, first=0, seen=3)
    for training in (Training(steps=3, passes=2, batch=16), Training(steps=7, passes=2, batch=16)):
        seen.clear()
        train(Counting(training), small_head(), rows, torch.Generator().manual_seed(0))
        expected = max(training.steps, 6)
        assert [size for size, _ in seen] == ([16, 16, 8] * 3)[:expected]
        assert [progress for _, progress in seen] == [i / expected for i in range(expected)]
