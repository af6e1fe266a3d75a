"""Source models with held-out rows, counted priors and pooled scatters."""

from dataclasses import replace

import numpy as np

from comparison.shifted_domains import ShiftedDomains, predicted, sources_of
from pipeline.method.source_model import SourceScatter, fit_source
from pipeline.method.variants import CALIBRATED, VARIANTS
from pipeline.method.within_scatter import DenseScatter
from reference import nearest_class_mean


def fitted(seed, rows, options=CALIBRATED, **settings):
    views = {view: x[rows] for view, x in seed.source.views.items()}
    return list(fit_source(seed.basis, views, seed.source.labels[rows], seed.tasks, options, **settings))


def test_held_out_rows_have_no_influence():
    seed = ShiftedDomains(0).build()
    rows = np.arange(84)
    out = rows % 3 == 0
    options = replace(CALIBRATED, arithmetic="float64")
    models = fitted(seed, rows, options, held_out=out)
    for found, expected in zip(models, fitted(seed, rows[~out], options), strict=True):
        W = expected.classifier.W
        np.testing.assert_allclose(found.classifier.W, W, atol=1e-5 * np.abs(W).max())
        np.testing.assert_allclose(found.embedding_means, expected.embedding_means)


def test_counted_priors_add_the_log_of_each_class_share():
    seed = ShiftedDomains(0).build()
    rows = np.flatnonzero((seed.source.labels > 0) | (np.arange(84) % 2 == 0))  # fewer rows of class 0
    equal, counted = (fitted(seed, rows, replace(CALIBRATED, class_priors=kind))[-1] for kind in ("equal", "counted"))
    count = np.bincount(seed.source.labels[rows])
    assert count[0] < count[1]
    np.testing.assert_allclose(counted.classifier.b - equal.classifier.b, np.log(count / count.sum()), atol=1e-9)


def test_a_pooled_scatter_adds_its_weight_and_its_degrees_of_freedom():
    pooled = DenseScatter(np.zeros((2, 2), order="F"), total=4.0, degrees=3.0)
    SourceScatter(np.array([1.0, 2.0, 3.0], np.float32), total=10.0, degrees=8.0).add_to(pooled)
    assert (pooled.total, pooled.degrees) == (14.0, 11.0)
    np.testing.assert_array_equal(np.tril(pooled.triangle), [[1, 0], [2, 3]])


def test_nearest_mean_uses_only_the_vision_model():
    seed, options = ShiftedDomains(0).build(clip=True), VARIANTS["nearest_mean"]
    models = sources_of(seed, options)
    last = predicted(seed, options, models, [None] * 3)[-1]
    x = seed.target.test.views["original"]
    np.testing.assert_array_equal(last.label, nearest_class_mean.predict(x, models[-1].embedding_means))
