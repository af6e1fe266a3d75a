"""Test that baselines that may answer `unknown` agree with naive oracles."""

from dataclasses import replace

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains, predicted, sources_of
from pipeline.comparison.registry import compared_method
from pipeline.comparison.unknown_classes import BASELINES, calibrated_temperature
from pipeline.method.continual_metrics import UNKNOWN
from pipeline.method.rows import unit_rows
from pipeline.method.variants import VARIANTS
from pipeline.method.zero_shot import cosines
from reference import unknown_classes as oracle

SOURCE_ONLY = VARIANTS["source_only"]


@pytest.fixture(scope="module")
def domains():
    return ShiftedDomains(0, sizes=(3, 2), n=70, d=8)


def baseline_inputs(seed, rows, t):
    """Return the rows' cosines, squared distances to source means and source probabilities for the classes seen."""
    (model,) = sources_of(seed, SOURCE_ONLY)[t : t + 1]
    K = len(model.means)
    g, x = unit_rows(rows.views["original"]), unit_rows(seed.source.views["original"])
    means = np.stack([x[seed.source.labels == c].mean(axis=0) for c in range(K)])
    distances = ((g[:, None] - means) ** 2).sum(axis=2)
    (source,) = predicted(replace(seed, target=replace(seed.target, test=rows)), SOURCE_ONLY, [model], [None])
    return np.asarray(rows.cosines)[:, :K].tolist(), distances.tolist(), source.fused.tolist()


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_agrees_with_its_oracle(name, domains):
    seed = domains.build(clip=True)
    source_cosines = cosines(seed.source.clip, seed.target.text)
    for t, answers in enumerate(compared_method(name).answers(seed)):
        K, scale = int(seed.tasks[t].max()) + 1, seed.target.clip_scale
        if name == "clip-calibrated":
            seen = seed.source.labels < K
            scale = 1 / calibrated_temperature(source_cosines[seen, :K], seed.source.labels[seen], 1 / scale)
        test, train = (
            [
                oracle.scores(name, c, scale, d, p)
                for rows in images
                for c, d, p in zip(*baseline_inputs(seed, rows, t), strict=True)
            ]
            for images in ([seed.target.test], seed.target.tasks[: t + 1])
        )
        half = name in ("clip-half-entropy", "clip-calibrated")
        limit = np.log(K) / 2 if half else oracle.otsu([u for _, u in train])
        assert answers.label.tolist() == [label for label, _ in test]
        np.testing.assert_allclose(answers.u, [u for _, u in test], rtol=1e-6)
        assert answers.rejected.tolist() == [u > limit for _, u in test]
        assert set(answers.classes()[answers.rejected]) <= {UNKNOWN}


def test_the_temperature_of_calibrated_clip_minimises_the_loss():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 7, 200)
    k = 0.2 + 0.05 * np.eye(7)[labels] + 0.03 * rng.normal(size=(200, 7))
    k[labels > 2, 0] += 0.1  # images of the unknown classes resemble the first class
    found = calibrated_temperature(k, labels, 0.01)
    losses = [oracle.calibration_loss(k.tolist(), labels.tolist(), t) for t in np.geomspace(1e-3, 1, 60)]
    assert oracle.calibration_loss(k.tolist(), labels.tolist(), found) < min(losses) + 0.003
    assert calibrated_temperature(k[:, :3], labels % 3, 0.01) == 0.01
