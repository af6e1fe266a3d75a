"""Degenerate data: the result of every variant is defined and documented."""

from dataclasses import replace

import numpy as np
import pytest

from comparison.shifted_domains import adapted_to, predicted, sources_of
from pipeline.errors import InputError
from pipeline.method.adaptation import Referee, adapt_task, pseudo_label
from pipeline.method.kernel_lda import NO_SPREAD
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.rows import TargetTask
from pipeline.method.task_statistics import empty_statistics
from pipeline.method.variants import VARIANTS
from pipeline.method.zero_shot import cosines
from pipeline.problem.seed import Seed, Source, Target

NAMES = ("calibrated", "no_clip", "no_augmentation", "no_weighting", "paper", "released")
RELATIVE = [name for name in NAMES if VARIANTS[name].ridge_kind == "relative"]
TEXT = np.eye(4, 6) + 0.1
PAIRS = (np.array([0, 1]), np.array([2, 3]))


def data(per_class, seed=0, spread=0.3):
    y = np.repeat(np.arange(4), per_class)
    x = np.random.default_rng(seed).standard_normal((len(y), 5)) * spread + 2 * np.eye(4, 5)[y]
    return x, y


def images(x, y, classes=range(4)):
    """Return the images of some classes as a target task."""
    members = np.isin(y, classes)
    views = {name: x[members].astype(np.float16) for name in ("original", "zeros", "rand")}
    clip = TEXT[y[members]].astype(np.float16)
    return TargetTask(views, cosines(clip, TEXT), clip, classes=np.array(classes))


def seed_of(source, target, *, tasks=PAIRS, gamma=1e-4, D=40):
    rows, basis = images(*source), draw_basis(5, D, gamma, "gamma", 0, d_clip=6)
    target_data = Target([images(*target, classes) for classes in tasks], images(*target), 10.0)
    return Seed(0, basis, Source(rows.views, source[1], rows.clip), target_data)


def accuracy(source, target, options, **settings):
    """Return the accuracy after adapting from source to target, and check that all numbers are finite."""
    seed = seed_of(source, target, **settings)
    sources = sources_of(seed, options)
    adapted = adapted_to(seed, options, sources)
    (prediction,) = predicted(seed, options, sources[-1:], [adapted[-1].classifier])
    for task in adapted:
        assert np.isfinite(task.classifier.W).all()
        assert np.isfinite(task.labels.weight).all()
    assert np.isfinite(prediction.fused).all()
    np.testing.assert_allclose(prediction.klda.sum(axis=1), 1)
    return float(np.mean(prediction.label == target[1]))


@pytest.mark.parametrize("name", NAMES)
def test_duplicate_images_many_features_and_one_class_per_task_are_handled(name):
    (xs, ys), (xt, yt) = data(12), data(12, seed=1)
    duplicated = ((np.repeat(xs, 2, axis=0), np.repeat(ys, 2)), (np.repeat(xt, 2, axis=0), np.repeat(yt, 2)))
    assert accuracy(*duplicated, VARIANTS[name]) == 1.0
    assert accuracy(data(2), data(4, seed=1), VARIANTS[name], D=600) == 1.0
    assert accuracy((xs, ys), (xt, yt), VARIANTS[name], tasks=tuple(np.array([c]) for c in range(4))) == 1.0


@pytest.mark.parametrize("name", RELATIVE)
@pytest.mark.parametrize("case", ["constant", "zero", "one per class", "copies", "D far above n"])
def test_classes_without_spread_are_refused_in_one_line(name, case):
    xs, ys = data(1 if case in ("one per class", "D far above n") else 6)
    if case in ("constant", "zero"):
        xs = np.full_like(xs, case == "constant")
    elif case == "copies":
        xs = np.repeat(xs[::6], 6, axis=0)
    D = 600 if case == "D far above n" else 40
    with pytest.raises(InputError) as raised:
        accuracy((xs, ys), (xs, ys), VARIANTS[name], D=D)
    assert str(raised.value) == NO_SPREAD
    assert "method.options.ridge_kind: absolute" in NO_SPREAD


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("per_class", [1, 6])
def test_an_absolute_ridge_handles_classes_without_spread(name, per_class):
    absolute = replace(VARIANTS[name], ridge_kind="absolute", ridge=1e-6, source_ridge=1e-6)
    copies = data(per_class, spread=0)
    assert accuracy(copies, copies, absolute) == 1.0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("gamma", [1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_a_small_gamma_loses_no_accuracy_and_a_large_one_is_finite(name, gamma):
    result = accuracy(data(12), data(12, seed=1), VARIANTS[name], gamma=gamma)
    # from 1e3 on, all rows are equally far apart for the kernel, and only CLIP is informative
    assert result == 1.0 or gamma > 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("domain", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_an_embedding_that_is_not_finite_is_refused(name, domain, value):
    domains = data(6), data(6, seed=1)
    domains[domain][0][3, 2] = value
    with pytest.raises(InputError, match=r"embeddings: row \d+ of \d+ is not finite"):
        accuracy(*domains, VARIANTS[name])


@pytest.mark.parametrize("name", NAMES)
def test_with_all_weights_zero_classes_keep_the_source_means(name):
    """The printed equations are undefined for such a task."""
    options = replace(VARIANTS[name], rounds=0)
    seed = seed_of(data(12), data(12, seed=1), tasks=[np.arange(4)], gamma=1e-2)
    (task,), (model,) = seed.target.tasks, sources_of(seed, options)
    referee = Referee(seed.basis, options, seed.target.clip_scale)
    labels = replace(pseudo_label(referee, task, model), weight=np.zeros(len(task)))
    start = empty_statistics(seed.basis, options)
    if name == "paper":
        with pytest.raises(InputError, match=r"eq. \(17\) divides by Σω − 1"):
            adapt_task(referee, task, model, start, labels)
    else:  # for `released`, only the ridge is left of the scatter
        statistics, adapted = adapt_task(referee, task, model, start, labels)
        np.testing.assert_allclose(statistics.means(), model.means, rtol=1e-12)
        assert np.isfinite(adapted.classifier.W).all()
