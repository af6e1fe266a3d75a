"""What every head-only baseline promises."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from comparison.head_cases import HEADS, PER_TASK, scores, shifted_problem, target_task
from pipeline.comparison.problem import SourceRows
from pipeline.comparison.registry import compared_method


@pytest.mark.parametrize("name", HEADS)
def test_is_far_above_chance_under_a_domain_shift_and_stays_among_the_classes_seen(name):
    problem, labels = shifted_problem()
    method = compared_method(name)
    predictions = method.run(problem)
    assert len(predictions) == 3
    for k, predicted in enumerate(predictions):
        assert predicted.shape == labels.shape
        assert np.issubdtype(predicted.dtype, np.integer)
        assert set(predicted) <= set(range(PER_TASK * (k + 1)))
    assert scores(predictions, labels)[0] > 0.7  # chance: 1/6; the last task alone: 1/3
    assert method.group == "head"
    assert method.source_samples


@pytest.mark.parametrize("name", HEADS)
def test_the_seed_is_the_only_randomness_and_nothing_global_is_left_behind(name):
    # so hard that another draw of the head predicts otherwise
    problem, _ = shifted_problem(noise=0.6)
    problem = replace(problem, target=problem.target[:2])
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002  it must not move
    run = compared_method(name).run
    try:
        torch.set_num_threads(1)
        first = run(problem)
        torch.manual_seed(123)
        torch.set_num_threads(3)
        again = run(problem)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
        moved = torch.get_rng_state()
        torch.set_rng_state(state)
    np.testing.assert_array_equal(first, again)
    assert torch.equal(moved, torch.Generator().manual_seed(123).get_state())
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002
    other = run(replace(problem, seed=7))
    assert any((a != b).any() for a, b in zip(first, other, strict=True))


def test_importing_and_naming_the_methods_does_not_import_torch():
    code = (
        "import sys; from pipeline.comparison.registry import compared_method\n"
        f"titles = [compared_method(name).title for name in {HEADS}]\n"
        "assert len(set(titles)) == 9 and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("task", [0, 1])
def test_a_class_or_a_task_without_rows_is_no_reason_to_fall(name, task):
    problem, labels = shifted_problem(rows=6)
    kept = ~np.isin(problem.source.labels, [0, 2 * task, 2 * task + 1])
    source = SourceRows(
        {"original": problem.source.views["original"][kept]}, problem.source.labels[kept]
    )
    empty = problem.target[task]
    target = list(problem.target)
    target[task] = target_task(empty.classes, empty.views["original"][:0])
    predictions = compared_method(name).run(replace(problem, source=source, target=target))
    assert [p.shape for p in predictions] == [labels.shape] * 3


@pytest.mark.parametrize("name", HEADS)
def test_reads_no_later_task(name):
    problem, labels = shifted_problem()
    later = labels >= 2 * PER_TASK
    source = problem.source.views["original"].copy()
    source[later] = 0.0
    last = problem.target[-1]
    spoilt = replace(
        problem,
        source=SourceRows({"original": source}, problem.source.labels),
        target=[*problem.target[:-1], target_task(last.classes, -last.views["original"])],
    )
    run = compared_method(name).run
    np.testing.assert_array_equal(run(problem)[:2], run(spoilt)[:2])
