"""Array stores: files equal zarr-python's, data survives a round trip, and mismatches are errors with a remedy."""

import numpy as np
import pytest
import zarr

from pipeline.errors import StoreError
from pipeline.method.fusion import PseudoLabels
from pipeline.method.kernel_lda import Classifier
from pipeline.store.array_layout import DATA_TYPES
from pipeline.store.array_store import open_arrays, write_arrays
from pipeline.store.prompt_store import Prompts, open_prompts, write_prompts
from pipeline.store.target_store import (
    NO_LABEL,
    AdaptedSeed,
    open_target,
    read_classifiers,
    read_pseudo_labels,
    write_target,
)
from shards import files_in

RNG = np.random.default_rng(0)
SCHEMA = "test/1"


@pytest.mark.parametrize("dtype", DATA_TYPES)
@pytest.mark.parametrize("shape", [(2, 3), (1,), (3, 1, 4), (2, 1, 1)])
def test_files_equal_zarr_python_and_arrays_are_read_whole_and_by_index(tmp_path, dtype, shape):
    x = (RNG.standard_normal(shape) * 3).astype(dtype)
    write_arrays(tmp_path / "ours.zarr", SCHEMA, {"x": x}, {"name": "n"})
    reference = zarr.create_array(
        tmp_path / "reference", shape=shape, dtype=dtype, chunks=(1, *shape[1:]), compressors=zarr.codecs.Crc32cCodec(),
        config={"write_empty_chunks": True},
    )  # fmt: skip
    reference[...] = x
    assert files_in(tmp_path / "ours.zarr/x") == files_in(tmp_path / "reference")
    group = zarr.open_group(tmp_path / "ours.zarr", mode="r")
    np.testing.assert_array_equal(group["x"][...], x)
    assert group.attrs["name"] == "n"
    store = open_arrays(tmp_path / "ours.zarr", SCHEMA)
    np.testing.assert_array_equal(store.read("x"), x)
    for index in range(shape[0]):
        part = store.read("x", index, shape=shape[1:])
        assert part.dtype == x.dtype
        np.testing.assert_array_equal(part, x[index])
    assert store.attribute("name", str) == "n"


def test_mismatches_are_refused_with_a_remedy(tmp_path):
    path = tmp_path / "a.zarr"
    write_arrays(path, SCHEMA, {"x": np.ones((2, 3))}, {"names": ["a", 1]})
    store = open_arrays(path, SCHEMA)
    for read in (
        lambda: store.read("y"),
        lambda: store.read("x", 2),
        lambda: store.read("x", 0, shape=(4,)),
        lambda: store.read("x", shape=(None,)),
        lambda: store.attribute("names", list, item_type=str),
        lambda: store.attribute("absent", str),
    ):
        with pytest.raises(StoreError, match=rf"{path}.*rm -r .*dvc checkout.*dvc repro"):
            read()
    for index in ((2,), (-1,), (0, 0)):
        with pytest.raises(StoreError, match=rf"{path}/x: .*no index.*shape \[2, 3\].*rm -r {path} "):
            store.read("x", *index)
    with pytest.raises(StoreError, match=rf"{path}.*'test/1'.*'test/2'.*rm -r .*dvc repro"):
        open_arrays(path, "test/2")
    with pytest.raises(StoreError, match="no such store; run dvc repro or dvc pull"):
        open_arrays(tmp_path / "none.zarr", SCHEMA)
    (path / "x/c/2").mkdir()
    (path / "x/c/2/0").write_bytes((path / "x/c/1/0").read_bytes())
    with pytest.raises(StoreError, match=rf"{path}/x: .*3 files instead of 2.*rm -r {path} .*dvc checkout {path}"):
        open_arrays(path, SCHEMA)


def test_prompts_survive_a_round_trip_and_nan_is_refused(tmp_path):
    text = np.eye(3, 5, dtype=np.float32)
    for name, values in (("p", text), ("bad", text * np.nan)):
        write_prompts(tmp_path / name, Prompts(values, 12.5, {"classes": ["a", "b", "c"], "prompts": list("AaBbCc")}))
    read = open_prompts(tmp_path / "p")
    assert np.array_equal(read.text, text)
    assert (read.logit_scale, read.classes) == (12.5, ["a", "b", "c"])
    subset = read.for_classes(["c", "a"])
    assert np.array_equal(subset.text, text[[2, 0]])
    assert subset.sentences() == {"c": ["C", "c"], "a": ["A", "a"]}
    with pytest.raises(StoreError, match=r"bad: .*not finite"):
        open_prompts(tmp_path / "bad")


def test_target_models_survive_a_round_trip(tmp_path):
    classifiers = [[Classifier(RNG.standard_normal((4, K)), RNG.standard_normal(K)) for K in (2, 3)] for _ in range(2)]
    fused = np.array([[0.1, 0.9], [0.8, 0.2]])
    first = PseudoLabels(np.array([1, 0]), fused, np.array([0.5, 0.3]), np.array([True, False]))
    second = PseudoLabels(np.array([2]), np.array([[1.0]]), np.array([1.0]), np.array([True]))
    labels = [(np.array([4, 1]), first), (np.array([2]), second)]
    seeds = [AdaptedSeed(tasks, labels) for tasks in classifiers]
    write_target(tmp_path / "t.zarr", seeds, rows=6, attributes={"problem": "a-b"})
    store = open_target(tmp_path / "t.zarr")
    for index, tasks in enumerate(classifiers):
        for expected, read in zip(tasks, read_classifiers(store, index), strict=True):
            np.testing.assert_array_equal(read.W, expected.W)
            np.testing.assert_array_equal(read.b, expected.b)
    pseudo_labels = read_pseudo_labels(store, 0, 6)
    assert pseudo_labels.label.tolist() == [NO_LABEL, 0, 2, NO_LABEL, 1, NO_LABEL]
    for index, expected in labels:
        for name in ("label", "weight", "kept"):
            np.testing.assert_array_equal(getattr(pseudo_labels, name)[index], getattr(expected, name))
        np.testing.assert_array_equal(pseudo_labels.fused[index, : expected.fused.shape[1]], expected.fused)
    with pytest.raises(StoreError, match="label has shape"):
        read_pseudo_labels(store, 0, 7)
