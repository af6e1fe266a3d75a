"""Source stores: models survive a round trip, and a target with other classes is refused."""

from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest

from pipeline.errors import StoreError
from pipeline.method.kernel_lda import Classifier
from pipeline.method.source_model import SourceModel, SourceScatter
from pipeline.store import source_store as stores
from pipeline.store.array_store import writing

CLASSES = ["ant", "bee", "cat", "dog"]
BACKBONES = {"vision": {"weights": "a"}, "language": {"weights": "b"}}
D = 3


def model(rng, means, embedding_means, K):
    classifier = Classifier(rng.standard_normal((D, K)), rng.standard_normal(K))
    triangle = rng.standard_normal(D * (D + 1) // 2).astype(np.float32)
    return SourceModel(means[:K], classifier, embedding_means[:K], SourceScatter(triangle, 9.5, K))


@pytest.mark.parametrize("with_scatter", [True, False])
def test_models_survive_a_round_trip_and_other_classes_are_refused(tmp_path, with_scatter):
    rng, path = np.random.default_rng(0), tmp_path / "s.zarr"
    means = [(rng.standard_normal((4, D)), rng.standard_normal((4, 5))) for _ in range(2)]
    models = [[model(rng, *seed_means, K) for K in (2, 4)] for seed_means in means]
    if not with_scatter:
        models = [[replace(task, scatter=None) for task in tasks] for tasks in models]
    with writing(path, stores.SCHEMA) as store:
        scatters = stores.reserve_scatters(store, 2, 2, D) if with_scatter else None
        second, first = (stores.write_scatters(scatters, i, models[i]) for i in (1, 0))  # seeds may finish in any order
        stores.write_models(store, CLASSES, BACKBONES, [first, second])
    assert stores.read_backbones(path) == BACKBONES
    for index, tasks in enumerate(models):
        stored = stores.read_source(path, index, CLASSES, with_scatter=with_scatter)
        for expected, read in zip(tasks, stored, strict=True):
            for name in ("means", "embedding_means", "classifier.W", "classifier.b"):
                np.testing.assert_array_equal(attrgetter(name)(read), attrgetter(name)(expected))
            for name in ("triangle", "total", "degrees"):
                np.testing.assert_array_equal(getattr(read.scatter, name, None), getattr(expected.scatter, name, None))
    with pytest.raises(StoreError, match=r"s\.zarr: its classes differ .*same class folders"):
        next(stores.read_source(path, 0, [*CLASSES[:3], "eel"]))
    if not with_scatter:
        with pytest.raises(StoreError, match=r"s\.zarr: has no array 'total'.*dvc repro"):
            next(stores.read_source(path, 0, CLASSES, with_scatter=True))
