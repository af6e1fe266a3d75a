"""Statistics by torch against those by NumPy and BLAS. A GPU runs the same code; none is needed to test it."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.errors import RefereeError
from pipeline.method.adaptation import run_problem
from pipeline.method.class_statistics import from_rows
from pipeline.method.device_statistics import statistics_on
from pipeline.method.random_fourier_features import deviation, draw_basis, draw_ensemble
from pipeline.method.variants import variant
from pipeline.params import Runtime
from pipeline.stages.statistics_device import statistics_device
from shifted_problem import SCALE, Problem


def test_statistics_by_torch_are_those_by_blas():
    rng = np.random.default_rng(0)
    basis = draw_basis(6, 20, 1e-2, "gamma", 0)
    x, labels = rng.normal(size=(31, 6)), rng.integers(0, 3, 31)
    weights = rng.uniform(0, 1, 31)
    blocks = [(x[k : k + 9], labels[k : k + 9], weights[k : k + 9]) for k in range(0, 31, 9)]
    found = statistics_on("cpu", basis, blocks, 4)
    expected = from_rows(deviation(basis, x).astype(np.float64), labels, weights, 4)
    for name in ("count", "weight", "squared_weight", "sums"):
        mine, theirs = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-7 * np.abs(theirs).max())
    mine, theirs = np.tril(found.scatter), np.tril(expected.scatter)
    np.testing.assert_allclose(mine, theirs, atol=1e-6 * np.abs(theirs).max())
    assert found.scatter.flags.f_contiguous


@pytest.mark.parametrize("members", [1, 2])
def test_a_whole_problem_is_the_same_on_a_device(members):
    problem, options = Problem(0, D=40), replace(variant("calibrated"), clip_in_kernel=0.0)

    def run(device):
        drawn = draw_ensemble(10, 40, 1.0, "bandwidth", 0, members=members)
        problem.basis = replace(drawn, device=device)
        sources = problem.sources(options)
        return run_problem(problem.basis, problem.tasks(), sources, options, SCALE)

    for mine, theirs in zip(run("cpu"), run(""), strict=True):
        np.testing.assert_array_equal(mine.labels.label, theirs.labels.label)
        np.testing.assert_allclose(mine.classifier.b, theirs.classifier.b, rtol=1e-3)


def test_a_device_that_is_not_there_is_refused_before_any_work():
    assert statistics_device(Runtime(statistics="cpu")) == ""
    with pytest.raises(RefereeError, match="use auto or cpu"):
        statistics_device(Runtime(statistics="cuda:99"))
