"""Work on rows in other processes and by torch gives what this process gives. A GPU runs what the CPU runs here."""

import pickle
from dataclasses import replace
from functools import partial, reduce

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains, adapted_to
from pipeline.extraction import device_statistics
from pipeline.extraction.executor import reduce_on_device
from pipeline.method.adaptation import Referee
from pipeline.method.evaluation import score
from pipeline.method.kernel_lda import Classifier
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.rows import BLOCK_IMAGES, LabelledRows, UnlabelledRows, reduce_here, row_ranges
from pipeline.method.source_model import SourceModel
from pipeline.method.task_statistics import sum_rows
from pipeline.method.variants import VARIANTS

N, D = 3 * BLOCK_IMAGES + 100, 24
BASIS = draw_basis(6, D, 1.0, "bandwidth", 0)
VIEWS = ("original", "zeros")
OPTIONS = replace(VARIANTS["calibrated"], views=VIEWS)


class InPieces:
    """A row reduction as by other processes: everything is pickled on its way there and back."""

    def __init__(self, count):
        self.count, self.parts = count, 0

    def __call__(self, function, shared, rows, combine):
        parts = [rows.take(index) for index in row_ranges(len(rows), self.count)]
        self.parts += len(parts)
        sent = [pickle.loads(pickle.dumps((function, shared, part))) for part in parts]
        results = [pickle.loads(pickle.dumps(call(common, part))) for call, common, part in sent]
        return reduce(combine, results)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [1, BLOCK_IMAGES, BLOCK_IMAGES + 1, 5 * BLOCK_IMAGES + 3])
def test_ranges_are_whole_blocks_and_hold_every_row_once(n, count):
    ranges = row_ranges(n, count)
    assert np.array_equal(np.concatenate(ranges), np.arange(n))
    assert len(ranges) == min(count, -(-n // BLOCK_IMAGES))
    assert all(len(part) % BLOCK_IMAGES == 0 for part in ranges[:-1])
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 2 * BLOCK_IMAGES


def views():
    rng = np.random.default_rng(0)
    return {view: rng.normal(size=(N, 6)).astype(np.float32) for view in VIEWS}


@pytest.mark.parametrize("arithmetic", ["float32", "float64"])
@pytest.mark.parametrize("count", [2, 5])
def test_statistics_of_ranges_are_those_of_all_rows(count, arithmetic):
    rng = np.random.default_rng(1)
    rows = LabelledRows(views(), rng.integers(0, 3, N), rng.uniform(0.1, 1, N))
    here, pieces = sum_rows(BASIS, rows, 3, arithmetic), InPieces(count)
    found = sum_rows(BASIS, rows, 3, arithmetic, pieces).to_arrays()
    assert pieces.parts == min(count, 4)
    for name, expected in here.to_arrays().items():
        assert np.abs(found[name] - expected).max() <= 1e-12 * np.abs(expected).max(), name


def test_scores_of_ranges_are_those_of_all_rows():
    rng = np.random.default_rng(3)
    classifier = Classifier(rng.normal(size=(D, 4)), rng.normal(size=4))
    source = SourceModel(np.zeros((4, D)), classifier, np.eye(4, 6))
    rows = UnlabelledRows(views(), rng.uniform(-1, 1, (N, 4)))
    labels = rng.integers(0, 4, N)
    arguments = (rows, labels, np.zeros(N, int), [source], [classifier])
    here, pieces = score(Referee(BASIS, OPTIONS, 5.0), *arguments), InPieces(2)
    in_pieces = score(Referee(BASIS, OPTIONS, 5.0, pieces), *arguments)
    assert pieces.parts == 2
    assert np.array_equal(here.branches["fused"].label, in_pieces.branches["fused"].label)
    assert here.ece == in_pieces.ece


ON_CPU = partial(reduce_on_device, "cpu")


@pytest.mark.parametrize("soft", [False, True])
def test_statistics_by_torch_are_those_by_blas(monkeypatch, soft):
    monkeypatch.setattr(device_statistics, "BLOCK_IMAGES", 9)
    rng = np.random.default_rng(0)
    basis = draw_basis(6, 20, 1e-2, "gamma", 0)
    views = {"original": rng.normal(size=(31, 6)), "zeros": rng.normal(size=(31, 6))}
    labels = rng.dirichlet(np.ones(3), 31) if soft else rng.integers(0, 3, 31)
    rows = LabelledRows(views, labels, rng.uniform(0, 1, 31))
    found = sum_rows(basis, rows, 4, "float32", ON_CPU)
    expected = sum_rows(basis, rows, 4, "float64")
    mine = found.to_arrays()
    for name, theirs in expected.to_arrays().items():
        np.testing.assert_allclose(mine[name], theirs, rtol=1e-5, atol=1e-7 * np.abs(theirs).max(), err_msg=name)
    assert found.scatter.flags.f_contiguous


def test_a_whole_problem_is_the_same_on_a_device():
    seed, options = ShiftedDomains(0).build(D=40), replace(VARIANTS["calibrated"], clip_in_kernel=0.0)
    on_device, here = (adapted_to(seed, options, reduce_rows=by) for by in (ON_CPU, reduce_here))
    for mine, theirs in zip(on_device, here, strict=True):
        np.testing.assert_array_equal(mine.labels.label, theirs.labels.label)
        np.testing.assert_allclose(mine.classifier.b, theirs.classifier.b, rtol=1e-3)
