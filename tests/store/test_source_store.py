"""The source model on disk is the source model in memory; the target's must have the same classes."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.errors import StoreError
from pipeline.method.kernel_lda import Classifier
from pipeline.method.source_model import SourceModel, SourceScatter
from pipeline.store.source_store import (
    read_backbones,
    read_source,
    reserve_scatters,
    write_models,
    write_scatters,
    writing_source,
)

CLASSES = ["ant", "bee", "cat", "dog"]
BACKBONES = {"vision": {"weights": "a"}, "language": {"weights": "b"}}
D = 3


def model(rng, means, embedding_means, K):
    classifier = Classifier(rng.standard_normal((D, K)), rng.standard_normal(K))
    triangle = rng.standard_normal(D * (D + 1) // 2).astype(np.float32)
    return SourceModel(means[:K], classifier, embedding_means[:K], SourceScatter(triangle, 9.5, K))


@pytest.fixture
def models():
    """Two seeds of two tasks of two classes each."""
    rng = np.random.default_rng(0)
    seeds = [(rng.standard_normal((4, D)), rng.standard_normal((4, 5))) for _ in range(2)]
    return [[model(rng, *means, K) for K in (2, 4)] for means in seeds]


def write(path, models, *, with_scatter):
    given = [[m if with_scatter else replace(m, scatter=None) for m in tasks] for tasks in models]
    with writing_source(path, CLASSES, BACKBONES) as store:
        scatters = reserve_scatters(store, 2, 2, D) if with_scatter else None
        second, first = (write_scatters(scatters, index, given[index]) for index in (1, 0))  # they end in any order
        write_models(store, [first, second])


@pytest.mark.parametrize("with_scatter", [True, False])
def test_models_are_read_as_written(tmp_path, models, with_scatter):
    write(tmp_path / "s.zarr", models, with_scatter=with_scatter)
    assert read_backbones(tmp_path / "s.zarr") == BACKBONES
    for index, tasks in enumerate(models):
        read = read_source(tmp_path / "s.zarr", index, CLASSES, with_scatter=with_scatter)
        for given, got in zip(tasks, read, strict=True):
            np.testing.assert_array_equal(got.classifier.W, given.classifier.W)
            np.testing.assert_array_equal(got.classifier.b, given.classifier.b)
            np.testing.assert_array_equal(got.means, given.means)
            np.testing.assert_array_equal(got.embedding_means, given.embedding_means)
            if with_scatter:
                np.testing.assert_array_equal(got.scatter.triangle, given.scatter.triangle)
                assert got.scatter.total == given.scatter.total
                assert got.scatter.degrees == given.scatter.degrees
            else:
                assert got.scatter is None


def test_other_classes_and_absent_scatters_are_refused(tmp_path, models):
    write(tmp_path / "s.zarr", models, with_scatter=False)
    with pytest.raises(StoreError, match=r"s\.zarr: its classes differ .*same class folders"):
        next(read_source(tmp_path / "s.zarr", 0, [*CLASSES[:3], "eel"]))
    with pytest.raises(StoreError, match=r"s\.zarr: has no array 'total'.*dvc repro"):
        next(read_source(tmp_path / "s.zarr", 0, CLASSES, with_scatter=True))
