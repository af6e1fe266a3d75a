"""Work on ranges of rows in other places gives what this process gives."""

import pickle
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest

from pipeline.method.adaptation import Referee
from pipeline.method.evaluation import score
from pipeline.method.kernel_lda import Classifier
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.rows import BLOCK_IMAGES, LabelledRows, UnlabelledRows, row_ranges
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
    assert np.array_equal(here.predicted, in_pieces.predicted)
    assert here.ece == in_pieces.ece
