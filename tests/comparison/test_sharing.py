"""What methods share on a seed changes no prediction, in whatever order they run."""

from dataclasses import replace

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains
from pipeline.comparison.referee_variants import run_variant
from pipeline.comparison.selection import source_likelihood
from pipeline.method.kernel_rows import not_shared
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.variants import CALIBRATED, VARIANTS
from pipeline.problem.seed import Seed

# they differ in the features, in the source fit, in views and in what is estimated of the target
OPTIONS = {
    **{name: VARIANTS[name] for name in ("calibrated", "paper", "released", "no_clip", "no_rounds")},
    **{name: VARIANTS[name] for name in ("no_augmentation", "rejecting", "source_only")},
    "another ridge": replace(CALIBRATED, ridge=1.0),
    "another weight of CLIP": replace(CALIBRATED, clip_in_kernel=1.0),
    "float64": replace(CALIBRATED, arithmetic="float64"),
}


def seed():
    built = ShiftedDomains(0, n=105, noise=2.0).build(clip=True)
    return built.with_basis(draw_basis(10, 60, 1e-4, "gamma", 0, d_clip=5))  # 16 directions count


@pytest.fixture(scope="module")
def alone():
    """Predictions and likelihood of each variant on a seed of its own, where nothing is shared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Seed, "shared", lambda _self, key, make: not_shared(key, make))
        return {
            name: (run_variant(seed(), options), source_likelihood(seed(), options))
            for name, options in OPTIONS.items()
        }


@pytest.mark.parametrize("order", [1, -1])
def test_sharing_gives_what_not_sharing_gives(alone, order):
    together = seed()
    for name in list(OPTIONS)[::order]:
        expected, likelihood = alone[name]
        assert source_likelihood(together, OPTIONS[name]) == likelihood, name
        predicted = run_variant(together, OPTIONS[name])
        for task, (one, other) in enumerate(zip(predicted, expected, strict=True)):
            np.testing.assert_array_equal(one, other, err_msg=f"{name}, task {task}")
    labels = [np.concatenate(predicted).tobytes() for predicted, _ in alone.values()]
    assert len(set(labels)) > len(OPTIONS) // 2  # or the variants could be mistaken for one another
