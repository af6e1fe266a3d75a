"""The public Python API on a real project: it returns what the stages wrote and computed."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

import pipeline
from pipeline.datasets.manifest_files import read_images, read_labels
from pipeline.datasets.task_files import read_tasks
from pipeline.errors import RefereeError
from pipeline.store.embedding_store import open_embeddings

pytestmark = pytest.mark.slow


@pytest.fixture
def cache(finished, monkeypatch):
    monkeypatch.delattr("pipeline.extraction.executor.keep_freed_memory")  # only for stages, not for a user's notebook
    return pipeline.open_cache(finished)  # which is not the current folder


def test_rows_match_the_store_and_the_manifest(cache, finished):
    manifest = finished / "cache/manifests/left"
    rows = cache.rows("left", "clip", view="zeros")
    stored = open_embeddings(finished / "cache/embeddings/left/clip.zarr").read("zeros")
    np.testing.assert_array_equal(rows.numpy(), stored.astype(np.float32))
    np.testing.assert_array_equal(np.asarray(rows), rows.torch().numpy())
    for key in (3, slice(2, 9, 3), [5, 1, 5], np.arange(24) % 2 == 0):
        np.testing.assert_array_equal(rows[key], rows.numpy()[key])
        assert rows.numpy()[key].dtype == np.float32
    assert rows.paths == [image.path for image in read_images(manifest)]
    np.testing.assert_array_equal(rows.labels, read_labels(manifest)[0])
    tasks = read_tasks(manifest)
    np.testing.assert_array_equal(rows.task, tasks.task + 1)
    train, test = rows.split(seed=1)
    np.testing.assert_array_equal(test.numpy(), rows.numpy()[tasks.test_mask(1)])
    assert {*train.paths, *test.paths} == set(rows.paths)
    assert not set(train.paths) & set(test.paths)


def test_a_data_loader_reads_the_dataset_in_batches(cache, monkeypatch):
    dataset = cache.dataset("right", "vit", part="train", seed=1)
    assert isinstance(dataset, torch.utils.data.Dataset)
    train, _ = cache.rows("right", "vit").split(1)
    batches = list(torch.utils.data.DataLoader(dataset, batch_size=5))
    torch.testing.assert_close(torch.cat([x for x, _ in batches]), train.torch())
    assert torch.cat([y for _, y in batches]).tolist() == train.labels.tolist()
    assert dataset[3][1] == train.labels[3]


def test_a_model_reproduces_the_accuracy_of_stage_evaluate(cache, finished):
    """Per seed, on the test images."""
    metrics = json.loads((finished / "results/toy/evaluations/left-right.json").read_text())
    rows, clip = cache.rows("right", "vit"), cache.rows("right", "clip")
    for seed, expected in enumerate(metrics["A_T_per_seed"]):
        model = cache.model("left-right", seed=seed)
        test, clip_test = rows.split(seed)[1], clip.split(seed)[1]
        predicted = model.predict(test, clip_test)
        arrays = {view: test.in_view(view).numpy() for view in model.views}
        np.testing.assert_allclose(model.predict(arrays, clip_test.numpy()).fused, predicted.fused, atol=1e-6)
        right = predicted.label == test.labels
        per_task = [right[test.task == task].mean() for task in (1, 2)]
        assert 100 * np.mean(per_task) == pytest.approx(expected, abs=0.01)
    assert cache.model("left-right", after=1).classes_seen == ("ant", "bee")


def test_methods_are_compared_as_in_stage_compare(cache, finished):
    file = finished / "results/toy/problems/left-right/comparison.json"
    written = json.loads(file.read_text())["methods"]
    figures = cache.compare("calibrated")
    assert figures.loc["left-right", "A_T_per_seed"] == written["calibrated"]["A_T_per_seed"]

    def always_the_first_class(seed):
        return [np.zeros(len(seed.target.test), int) for _ in seed.tasks]

    assert cache.compare(always_the_first_class, "left-right").loc["left-right", "A_T"] == 25


def test_a_git_url_and_a_dvc_remote_suffice(project_copy, cache, tmp_path, monkeypatch):
    project, bare = project_copy, tmp_path / "team.git"
    project.run("dvc", "remote", "add", "--default", "store", str(tmp_path / "remote"))
    project.commit("remote")
    project.run("dvc", "push", "--quiet")
    project.run("git", "tag", "v1")
    project.change_params(rff={"D": 51})
    project.commit("later")
    project.run("git", "clone", "--quiet", "--bare", str(project.folder), str(bare))
    shutil.rmtree(project.folder)
    url = f"file://{bare}"
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    tagged = pipeline.open_cache(url, rev="v1")
    rows, clip = tagged.rows("right", "vit"), tagged.rows("right", "clip")
    np.testing.assert_array_equal(rows.numpy(), cache.rows("right", "vit").numpy())
    assert rows.paths == cache.rows("right", "vit").paths
    assert tagged.model("left-right").predict(rows, clip).label.shape == (24,)
    assert tagged.compare("calibrated").equals(cache.compare("calibrated"))
    assert pipeline.open_cache(url).params.rff.D == 51  # on the default branch
    with pytest.raises(RefereeError, match=r"D = 50, but params\.yaml says 51"):
        pipeline.open_cache(url).model("left-right")
    assert not list((tmp_path / "empty").iterdir())


def refused(call, *arguments, **settings):
    """Return the one-line error that a call must raise."""
    with pytest.raises(RefereeError) as error:
        call(*arguments, **settings)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda cache: cache.rows("lfet", "vit"), ("domains", "'left'")),
        (lambda cache: cache.rows("left", "resnet"), ("models", "vit")),
        (lambda cache: cache.rows("left", "vit", "blurred"), ("vit.zarr", "original, zeros, rand")),
        (lambda cache: cache.rows("left", "vit").split(7), ("seed 7", "0, 1")),
        (lambda cache: cache.model("left-wrong"), ("problems", "'left-right'")),
        *((lambda cache, t=t: cache.model("left-right", after=t), (f"after task {t}", "1 to 2")) for t in (0, 3)),
        (lambda cache: cache.compare("calibrate"), ("calibrate", "'calibrated'")),
    ],
)
def test_mistakes_raise_a_one_line_error(cache, call, words):
    line = refused(call, cache)
    assert all(word in line for word in words), line


@pytest.mark.parametrize("arguments", [{"folder": "nowhere"}, {"folder": ".", "rev": "no-such"}])
def test_opening_something_else_than_a_project_raises_a_one_line_error(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(pipeline.open_cache, **arguments)


def test_the_package_imports_nothing_until_it_is_used():
    code = "import sys, pipeline; print(sorted({'numpy', 'zarr', 'torch', 'sklearn', 'dvc'} & set(sys.modules)))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"
    assert set(pipeline.__all__) <= {name for name in pipeline.__all__ if getattr(pipeline, name)}
