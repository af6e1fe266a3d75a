"""The source model on disk is the source model in memory; the target's must have the same classes."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.errors import StoreError
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.source_model import fit_source
from pipeline.method.variants import MethodOptions
from pipeline.store.source_store import read_source, writing_source

CLASSES = ["ant", "bee", "cat", "dog"]
BACKBONES = {"vision": {"weights": "a"}, "language": {"weights": "b"}}


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


def write(path, models, *, with_scatter):
    with writing_source(path, CLASSES, BACKBONES, seeds=2, tasks=2) as writer:
        if with_scatter:
            writer.reserve(1, 20)
        for index in (1, 0):  # seeds end in any order
            bare = [
                model if with_scatter else replace(model, spreads=()) for model in models[index]
            ]
            writer.write_seed(index, bare)


def test_round_trip(tmp_path, models):
    write(tmp_path / "s.zarr", models, with_scatter=True)
    for index, of_seed in enumerate(models):
        read = read_source(tmp_path / "s.zarr", index, CLASSES, with_scatter=True)
        for given, got in zip(of_seed, read, strict=True):
            assert np.array_equal(got.classifier.W, given.classifier.W)
            assert np.array_equal(got.classifier.b, given.classifier.b)
            assert np.array_equal(got.means, given.means)
            assert np.array_equal(got.embedding_means, given.embedding_means)
            for a, b in zip(got.spreads, given.spreads, strict=True):
                assert np.array_equal(a.triangle, b.triangle)
                assert (a.total, a.degrees) == (b.total, b.degrees)


def test_other_classes_are_refused(tmp_path, models):
    write(tmp_path / "s.zarr", models, with_scatter=False)
    with pytest.raises(StoreError, match="its classes differ from the target's"):
        next(read_source(tmp_path / "s.zarr", 0, [*CLASSES[:3], "eel"]))
    with pytest.raises(StoreError, match="has no array 'total'"):
        next(read_source(tmp_path / "s.zarr", 0, CLASSES, with_scatter=True))
