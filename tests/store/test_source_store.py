"""The source model on disk is the source model in memory; the target's must have the same classes."""

import numpy as np
import pytest

from pipeline.errors import StoreError
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.source_model import fit_source
from pipeline.method.variants import MethodOptions
from pipeline.store.source_store import read_source, write_source

CLASSES = ["ant", "bee", "cat", "dog"]


@pytest.fixture(scope="module")
def models():
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 12)
    x = generator.standard_normal((48, 5)) + 3 * np.eye(4, 5)[labels]
    tasks = [np.array([0, 1]), np.array([2, 3])]
    options = MethodOptions(source_views=False)
    return [
        fit_source(draw_basis(5, 20, 0.1, "gamma", seed), {"original": x}, labels, tasks, options)
        for seed in (0, 1)
    ]


def test_round_trip(tmp_path, models):
    write_source(tmp_path / "s.zarr", models, CLASSES, with_scatter=True)
    for index, of_seed in enumerate(models):
        read = read_source(tmp_path / "s.zarr", index, CLASSES, with_scatter=True)
        for given, got in zip(of_seed, read, strict=True):
            assert np.array_equal(got.classifier.W, given.classifier.W)
            assert np.array_equal(got.classifier.b, given.classifier.b)
            assert np.array_equal(got.moments.means, given.moments.means)
            assert np.array_equal(got.embedding_means, given.embedding_means)
            assert np.allclose(got.moments.scatter, given.moments.scatter, rtol=1e-6, atol=0)
            assert (got.moments.total, got.moments.degrees) == (
                given.moments.total,
                given.moments.degrees,
            )


def test_other_classes_are_refused(tmp_path, models):
    write_source(tmp_path / "s.zarr", models, CLASSES, with_scatter=False)
    with pytest.raises(StoreError, match="its classes differ from the target's"):
        read_source(tmp_path / "s.zarr", 0, [*CLASSES[:3], "eel"])
    with pytest.raises(StoreError, match="has no array 'total'"):
        read_source(tmp_path / "s.zarr", 0, CLASSES, with_scatter=True)
