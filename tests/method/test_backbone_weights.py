"""Several vision models in one kernel: the kernel of the weighted basis, and the choice of the weights."""

import numpy as np
import pytest

from pipeline.method.backbone_weights import chosen_weights, join_models, split_models, weighted
from pipeline.method.random_fourier_features import deviations, draw_basis
from reference.basics import unit
from reference.random_fourier_features import kernel


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (1.0, 0.5, 4.0), (1.0, 0.0, 2.0)])
def test_a_weighted_basis_gives_the_kernel_of_the_weighted_models(weights):
    rng, widths = np.random.default_rng(0), (3, 5, 2)
    models = [rng.normal(size=(6, d)) * 10 ** rng.normal(size=(6, 1)) for d in widths]
    rows = join_models(models)
    for model, part in zip(models, split_models(rows, widths), strict=True):
        np.testing.assert_allclose(part * np.linalg.norm(model, axis=1)[:, None], model)
    basis = weighted(draw_basis(sum(widths), 40_000, 0.7, "gamma", seed=0), widths, weights)
    z = deviations(basis, rows) + basis.pivot
    # exp(−gamma Σ_p w_p² ‖x_p/‖x_p‖ − y_p/‖y_p‖‖² / Σ_p w_p²)
    images = [np.concatenate([w * unit(x[i]) for w, x in zip(weights, models, strict=True)]) for i in range(6)]
    exact = [[kernel(x, y, 0.7) for y in images] for x in images]
    np.testing.assert_allclose(z @ z.T, exact, atol=0.03)


@pytest.mark.parametrize(
    ("spreads", "low", "high"), [((1, 9), 0, 0.5), ((9, 1), 2, 4), ((2, 2), 0.5, 2), ((9, 9, 1), 2, 4)]
)
def test_the_model_that_separates_the_classes_gets_more_weight(spreads, low, high):
    rng, d = np.random.default_rng(0), 40
    labels = np.array([*np.repeat(np.arange(3), 20), 3])  # the last class has a single image
    models = [rng.normal(size=(4, d))[labels] + s * rng.normal(size=(len(labels), d)) for s in spreads]
    widths = [d] * len(models)
    basis = draw_basis(sum(widths), 200, 1e-4, "gamma", seed=0, d_clip=4)
    clip = rng.normal(size=(len(labels), 4))
    weights = chosen_weights(basis, join_models(models), widths, labels, clip)
    assert weights[0] == 1
    assert len(weights) == len(models)
    assert low <= weights[-1] <= high
