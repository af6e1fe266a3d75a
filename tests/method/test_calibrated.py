"""The shipped default as a whole against a naive float64 oracle: from embeddings to predicted probabilities."""

import numpy as np
import pytest

from pipeline.method import relabelling
from pipeline.method.adaptation import Referee, adapt_task, pseudo_label
from pipeline.method.kernel_rows import kernel_rows
from pipeline.method.prediction import predict
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.rows import TargetTask, UnlabelledRows
from pipeline.method.source_model import fit_source
from pipeline.method.task_statistics import empty_statistics
from pipeline.method.variants import VARIANTS
from pipeline.method.zero_shot import cosines
from reference import calibrated as oracle

VIEWS = ("original", "zeros", "rand")
TASKS = [np.array([0, 1, 2]), np.array([3, 4]), np.array([5, 6])]
C, d, d_clip, SCALE = 7, 10, 8, 12.0
TOLERANCE = 2e-4  # of probabilities: features are float32, products of them too


class Images:
    """Labelled images of a domain: views, CLIP rows, cosines."""

    def __init__(self, rng, centres, texts, n, shift=0.0, noise=1.0):
        self.y = rng.permutation(np.arange(n) % C)
        x = centres[self.y] + shift + noise * rng.normal(size=(n, d))
        self.views = {v: x + 0.3 * k * rng.normal(size=x.shape) for k, v in enumerate(VIEWS)}
        self.clip = texts[self.y] + noise * rng.normal(size=(n, d_clip))
        self.cosines = cosines(self.clip, texts)

    def z(self, basis, images):
        """The oracle's features, view by view."""
        omega = np.vstack([basis.omega, basis.clip_omega]).astype(np.float64)
        return [[oracle.feature(self.views[v][i], self.clip[i], omega, basis.beta) for i in images] for v in VIEWS]


def problem(n, D, seed):
    rng = np.random.default_rng(seed)
    centres, texts = rng.normal(size=(C, d)), rng.normal(size=(C, d_clip))
    source = Images(rng, centres, texts, n)
    shift = 0.9 * rng.normal(size=d)
    target, test = (Images(rng, centres, texts, k, shift, 2.0) for k in (n, 21))
    return draw_basis(d, D, 1.0, "bandwidth", seed, d_clip=d_clip), source, target, test


def shipped(basis, source, target, test):
    """Run the default; return after each task the first labels, the final labels and the test prediction."""
    options = VARIANTS["calibrated"]
    statistics = empty_statistics(basis, options)
    models = fit_source(basis, source.views, source.y, TASKS, options, clip=source.clip)
    test_rows = UnlabelledRows(test.views, test.cosines, test.clip)
    features = kernel_rows(basis, test_rows, options.clip_in_kernel)
    for classes, model in zip(TASKS, models, strict=True):
        images = UnlabelledRows(target.views, target.cosines, target.clip)
        rows = images.take(np.flatnonzero(np.isin(target.y, classes)))
        task = TargetTask(rows.views, rows.cosines, rows.clip, classes=classes)
        first = pseudo_label(Referee(basis, options, SCALE), task, model)
        statistics, adapted = adapt_task(Referee(basis, options, SCALE), task, model, statistics, first)
        yield first, adapted.labels, predict(features, test.cosines, model, adapted.classifier, options, SCALE)


def expected(basis, source, target, test):
    """The same by the oracle."""
    model, test_z = oracle.Target(), test.z(basis, range(len(test.y)))
    for classes in TASKS:
        K = int(classes.max()) + 1
        seen = np.flatnonzero(source.y < K)
        rows = [(z, source.y[i]) for view in source.z(basis, seen) for z, i in zip(view, seen, strict=True)]
        source_model = oracle.Source(rows, K)
        images = np.flatnonzero(np.isin(target.y, classes))
        vision = target.views["original"][images]
        task = (classes.tolist(), target.z(basis, images), target.cosines[images], vision)
        first = oracle.first_label(task, source_model, SCALE)
        *final, after = model.adapt(source_model, task, SCALE)
        yield first, final, oracle.predict(after, test_z)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("n", "D", "in_row_space"), [(42, 90, 3), (84, 20, 0)])
def test_the_shipped_default_equals_the_naive_oracle(monkeypatch, n, D, in_row_space, seed):
    calls, factored = [], relabelling.row_space
    monkeypatch.setattr(relabelling, "row_space", lambda *a, **k: calls.append(1) or factored(*a, **k))
    data = problem(n, D, seed)
    changed = 0
    for mine, naive in zip(shipped(*data), expected(*data), strict=True):
        for labels, (label, weight, fused) in zip(mine[:2], naive[:2], strict=True):
            np.testing.assert_array_equal(labels.label, label)
            np.testing.assert_allclose(labels.weight, weight, atol=TOLERANCE)
            np.testing.assert_allclose(labels.fused, fused, atol=TOLERANCE)
        np.testing.assert_array_equal(mine[2].label, naive[2].argmax(axis=1))
        np.testing.assert_allclose(mine[2].fused, naive[2], atol=TOLERANCE)
        changed += (mine[0].label != mine[1].label).sum()
    assert changed > 0  # the rounds have something to do
    assert len(calls) == in_row_space  # the path that this size is meant for
