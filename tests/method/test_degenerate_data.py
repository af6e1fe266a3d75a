"""Data at its limits: what the method does is defined for each, under every variant, and documented."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.method.adaptation import Referee, adapt_task, adapt_tasks, pseudo_label
from pipeline.method.kernel_lda import NO_SPREAD
from pipeline.method.kernel_rows import kernel_rows
from pipeline.method.prediction import predict
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.rows import TargetTask, UnlabelledRows
from pipeline.method.source_model import fit_source
from pipeline.method.task_statistics import empty_statistics
from pipeline.method.variants import VARIANTS
from pipeline.method.zero_shot import cosines

NAMES = ("calibrated", "no_clip", "no_augmentation", "no_weighting", "paper", "released")
RELATIVE = [name for name in NAMES if VARIANTS[name].ridge_kind == "relative"]
TEXT = np.eye(4, 6) + 0.1
PAIRS = (np.array([0, 1]), np.array([2, 3]))
SCALE = 10.0


def data(per_class, seed=0, spread=0.3):
    y = np.repeat(np.arange(4), per_class)
    x = np.random.default_rng(seed).standard_normal((len(y), 5)) * spread + 2 * np.eye(4, 5)[y]
    return x, y


def views(x):
    return {name: x.astype(np.float16) for name in ("original", "zeros", "rand")}


def clip_rows(y):
    return TEXT[y].astype(np.float16)


def target_task(images, classes):
    return TargetTask(images.views, images.cosines, images.clip, classes=classes)


def accuracy(source, target, options, *, tasks=PAIRS, gamma=1e-4, D=40):
    """Fit the source, adapt to the target, predict the target's rows; every number on the way must be finite."""
    (xs, ys), (xt, yt) = source, target
    basis = draw_basis(5, D, gamma, "gamma", 0, d_clip=6)
    models = list(fit_source(basis, views(xs), ys, tasks, options, clip=clip_rows(ys)))
    images = UnlabelledRows(views(xt), cosines(clip_rows(yt), TEXT), clip_rows(yt))
    target_tasks = [target_task(images.take(np.flatnonzero(np.isin(yt, c))), c) for c in tasks]
    adapted = adapt_tasks(Referee(basis, options, SCALE), target_tasks, models)
    features = kernel_rows(basis, images, options.clip_in_kernel)
    predicted = predict(features, images.cosines, models[-1], adapted[-1].classifier, options, SCALE)
    for task in adapted:
        assert np.isfinite(task.classifier.W).all()
        assert np.isfinite(task.labels.weight).all()
    assert np.isfinite(predicted.fused).all()
    np.testing.assert_allclose(predicted.klda.sum(axis=1), 1)
    return float(np.mean(predicted.label == yt))


@pytest.mark.parametrize("name", NAMES)
def test_duplicate_images_are_rows_like_others(name):
    (xs, ys), (xt, yt) = data(12), data(12, seed=1)
    twice = ((np.repeat(xs, 2, axis=0), np.repeat(ys, 2)), (np.repeat(xt, 2, axis=0), np.repeat(yt, 2)))
    assert accuracy(*twice, VARIANTS[name]) == 1.0


@pytest.mark.parametrize("name", RELATIVE)
@pytest.mark.parametrize("case", ["constant", "zero", "one per class", "copies", "D far above n"])
def test_without_spread_within_classes_there_is_one_line(name, case):
    xs, ys = data(1 if case in ("one per class", "D far above n") else 6)
    if case == "constant":
        xs = np.ones_like(xs)
    elif case == "zero":
        xs = np.zeros_like(xs)
    elif case == "copies":
        xs = np.repeat(xs[::6], 6, axis=0)
    D = 600 if case == "D far above n" else 40
    with pytest.raises(InputError) as raised:
        accuracy((xs, ys), (xs, ys), VARIANTS[name], D=D)
    assert str(raised.value) == NO_SPREAD


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", ["one per class", "copies"])
def test_its_remedy_works_and_is_nearest_mean(name, case):
    absolute = replace(VARIANTS[name], ridge_kind="absolute", ridge=1e-6, source_ridge=1e-6)
    xs, ys = data(1 if case == "one per class" else 6, spread=0)
    assert accuracy((xs, ys), (xs, ys), absolute) == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_D_far_above_n_is_fine_where_rows_vary(name):
    assert accuracy(data(2), data(4, seed=1), VARIANTS[name], D=600) == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_one_class_per_task_has_weight_one(name):
    tasks = tuple(np.array([c]) for c in range(4))
    assert accuracy(data(12), data(12, seed=1), VARIANTS[name], tasks=tasks) == 1.0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("gamma", [1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_gamma_down_to_1e_12_keeps_its_digits_and_up_to_1e6_is_defined(name, gamma):
    found = accuracy(data(12), data(12, seed=1), VARIANTS[name], gamma=gamma)
    # from 1e3 on no two rows are alike: the kernel tells nothing, and what is left is CLIP or chance
    assert found == 1.0 or gamma > 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("name", NAMES)
def test_an_embedding_that_is_not_finite_is_refused(name, side, bad):
    source, target = data(6), data(6, seed=1)
    (source if side == "source" else target)[0][3, 2] = bad
    with pytest.raises(InputError, match=r"embeddings: row \d+ of \d+ is not finite"):
        accuracy(source, target, VARIANTS[name])


@pytest.mark.parametrize("name", NAMES)
def test_weights_that_are_all_zero(name):
    """No image of a task counts: its classes keep the source's means; the printed equations have no answer."""
    options = VARIANTS[name]
    basis = draw_basis(5, 40, 1e-2, "gamma", 0, d_clip=6)
    (xs, ys), (xt, yt) = data(12), data(12, seed=1)
    (model,) = fit_source(basis, views(xs), ys, [np.arange(4)], options, clip=clip_rows(ys))
    images = UnlabelledRows(views(xt), cosines(clip_rows(yt), TEXT), clip_rows(yt))
    task = target_task(images, np.arange(4))
    labels = pseudo_label(Referee(basis, options, SCALE), task, model)
    nothing = replace(labels, weight=np.zeros(len(yt)))
    once = replace(options, rounds=0)

    def adapt():
        start = empty_statistics(basis, once)
        return adapt_task(Referee(basis, once, SCALE), task, model, start, nothing)

    if name == "paper":
        with pytest.raises(InputError, match=r"eq. \(17\) divides by Σω − 1"):
            adapt()
    else:  # of `released`, where no row has weight, nothing but the ridge is left of the scatter
        statistics, adapted = adapt()
        np.testing.assert_allclose(statistics.means(), model.means, rtol=1e-12)
        assert np.isfinite(adapted.classifier.W).all()
