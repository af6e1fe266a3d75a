"""Baselines that may answer `unknown` agree with naive oracles; our rejecting variant tells unknown rows from known."""

from dataclasses import replace

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains
from pipeline.comparison.registry import compared_method
from pipeline.comparison.unknown_classes import BASELINES, calibrated_temperature
from pipeline.method.continual_metrics import UNKNOWN, scores_after_tasks
from pipeline.method.rows import unit_rows
from pipeline.problem.seed import Source
from reference import unknown_classes as oracle

KNOWN = 5  # of the seven classes of the domains; the others are unknown to the source


@pytest.fixture(scope="module")
def domains():
    return ShiftedDomains(0, sizes=(3, 2), n=70, d=8)


def described(seed, rows, K):
    """Return cosines, and squared distances to the source's means, of rows over the first K classes."""
    g, x = unit_rows(rows.views["original"]), unit_rows(seed.source.views["original"])
    means = np.stack([x[seed.source.labels == c].mean(axis=0) for c in range(K)])
    distances = ((g[:, None] - means) ** 2).sum(axis=2)
    return np.asarray(rows.cosines)[:, :K].tolist(), distances.tolist()


@pytest.mark.parametrize(
    "name", ["mcm", "clip-entropy", "clip-largest-cosine", "clip-half-entropy", "nearest-mean-distance"]
)
def test_a_baseline_is_the_naive_one(name, domains):
    seed = domains.build(clip=True)
    for t, answers in enumerate(compared_method(name).answers(seed)):
        K = int(seed.tasks[t].max()) + 1
        test, train = (
            [
                oracle.scores(name, c, seed.target.clip_scale, d)
                for rows in images
                for c, d in zip(*described(seed, rows, K), strict=True)
            ]
            for images in ([seed.target.test], seed.target.tasks[: t + 1])
        )
        half = name == "clip-half-entropy"
        limit = np.log(K) / 2 if half else oracle.otsu([u for _, u in train])
        assert answers.label.tolist() == [label for label, _ in test]
        np.testing.assert_allclose(answers.u, [u for _, u in test], rtol=1e-9)
        assert answers.rejected.tolist() == [u > limit for _, u in test]
        assert set(answers.classes()[answers.rejected]) <= {UNKNOWN}


def test_the_temperature_of_calibrated_clip_is_that_of_the_least_loss():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 7, 200)
    k = 0.2 + 0.05 * np.eye(7)[labels] + 0.03 * rng.normal(size=(200, 7))
    k[labels > 2, 0] += 0.1  # images of the classes that play the unknown look like the first class
    found = calibrated_temperature(k, labels, 0.01)
    losses = [oracle.calibration_loss(k.tolist(), labels.tolist(), t) for t in np.geomspace(1e-3, 1, 60)]
    assert oracle.calibration_loss(k.tolist(), labels.tolist(), found) < min(losses) + 0.003
    assert calibrated_temperature(k[:, :3], labels % 3, 0.01) == 0.01


@pytest.mark.parametrize("name", [*BASELINES, "rejecting"])
def test_rows_of_unknown_classes_are_rather_rejected(name):
    seed, labels, tasks = unknown_seed()
    last = scores_after_tasks(labels, tasks, compared_method(name).answers(seed))[-1]
    assert last.auroc > 0.6


def unknown_seed():
    """Return a seed whose last two classes the source and the class sets lack; labels and tasks of the test rows."""
    domains = ShiftedDomains(2, sizes=(3, 4), n=210, tests=140, d=12, noise=0.5)
    seed = domains.build(clip=True)
    first, second, test = (
        replace(rows, cosines=rows.cosines[:, :KNOWN]) for rows in (*seed.target.tasks, seed.target.test)
    )
    tasks = [first, replace(second, classes=second.classes[:2])]  # rows of unknown classes arrive with the second task
    text = seed.target.text[:KNOWN]
    target = replace(seed.target, tasks=tasks, test=test, text=text, estimate_classes=True)
    known = domains.source_y < KNOWN
    views = {view: x[known] for view, x in seed.source.views.items()}
    source = Source(views, seed.source.labels[known], seed.source.clip[known])
    labels = np.where(domains.test_y < KNOWN, domains.test_y, UNKNOWN)
    return replace(seed, source=source, target=target), labels, domains.test_tasks
