import pickle
from dataclasses import replace

import numpy as np
import pytest

from pipeline.method.class_statistics import ClassStatistics, from_rows
from pipeline.method.kernel_lda import Classifier
from pipeline.method.moments import LabelledTask, task_statistics
from pipeline.method.prediction import klda_probabilities
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.row_ranges import IMAGES, ranges_of
from pipeline.method.task_features import TaskFeatures
from pipeline.method.variants import variant

N, D = 3 * IMAGES + 100, 24
BASIS = draw_basis(6, D, 1.0, "bandwidth", 0)
VIEWS = ("original", "zeros")


class InPieces:
    """Takes ranges as another process would: everything is pickled on its way there and back."""

    def __init__(self, count):
        self.pieces = count
        self.parts = 0

    def count(self):
        return self.pieces

    def listed(self, function, shared, parts):
        self.parts += len(parts)
        sent = [pickle.loads(pickle.dumps((function, shared, part))) for part in parts]
        return [pickle.loads(pickle.dumps(call(common, part))) for call, common, part in sent]

    def summed(self, function, shared, parts):
        first, *rest = self.listed(function, shared, parts)
        for one in rest:
            first = first + one
        return first


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [1, IMAGES, IMAGES + 1, 5 * IMAGES + 3])
def test_ranges_are_whole_blocks_and_hold_every_place_once(n, count):
    places = 3 * np.arange(n)
    ranges = ranges_of(places, count)
    assert np.array_equal(np.concatenate(ranges), places)
    assert len(ranges) == min(count, -(-n // IMAGES))
    assert all(len(part) % IMAGES == 0 for part in ranges[:-1])
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 2 * IMAGES


def rows():
    rng = np.random.default_rng(0)
    return {view: rng.normal(size=(N, 6)).astype(np.float32) for view in VIEWS}


def task(elsewhere=None):
    rng = np.random.default_rng(1)
    features = TaskFeatures(BASIS, rows(), elsewhere=elsewhere, keep=False)
    labels, weights = rng.integers(2, 5, N), rng.uniform(0.1, 1, N)
    kept = rng.random(N) < 0.9
    return LabelledTask(features, 0, VIEWS, labels, weights, kept, np.array([2, 3, 4]))


@pytest.mark.parametrize("arithmetic", ["float32", "float64"])
@pytest.mark.parametrize("count", [2, 5])
def test_statistics_of_ranges_are_those_of_all_rows(count, arithmetic):
    here, pieces = task_statistics(task(), arithmetic), InPieces(count)
    there = task_statistics(task(pieces), arithmetic)
    assert pieces.parts == min(count, 3)  # of 0.9 · 6,244 images
    assert np.array_equal(there.count, here.count)
    for name in ("weight", "squared_weight", "sums", "scatter"):
        mine, theirs = np.tril(getattr(here, name)), np.tril(getattr(there, name))
        assert np.abs(theirs - mine).max() <= 1e-12 * np.abs(mine).max(), name


def test_a_task_of_which_nothing_is_kept_has_no_ranges():
    nothing = replace(task(InPieces(2)), kept=np.zeros(N, dtype=bool))
    assert task_statistics(nothing, "float32").total_weight == 0


def test_few_rows_stay_here():
    few = {view: x[:100] for view, x in rows().items()}
    assert TaskFeatures(BASIS, few, elsewhere=InPieces(2)).elsewhere is None


@pytest.mark.parametrize("vote", [False, True])
def test_probabilities_of_ranges_are_those_of_all_rows(vote):
    rng = np.random.default_rng(2)
    classifier = Classifier(rng.normal(size=(D, 3)), rng.normal(size=3))
    options = replace(variant("calibrated"), views=VIEWS)

    def probabilities(elsewhere):
        features = TaskFeatures(BASIS, rows(), elsewhere=elsewhere, keep=False)
        return klda_probabilities(features, classifier, np.arange(3), options, vote=vote)

    pieces = InPieces(3)
    assert np.array_equal(probabilities(pieces), probabilities(None))
    assert pieces.parts == 3


def test_statistics_travel_as_one_triangle():
    rng = np.random.default_rng(3)
    made = from_rows(rng.normal(size=(50, 200)), rng.integers(0, 3, 50), None, 3)
    sent = pickle.dumps(made)
    assert len(sent) < 0.6 * made.scatter.nbytes
    back = pickle.loads(sent)
    assert isinstance(back, ClassStatistics)
    assert np.array_equal(np.tril(back.scatter), np.tril(made.scatter))
    assert np.array_equal(back.sums, made.sums)
