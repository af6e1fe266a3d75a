"""Test two joined vision models, from their stores to the prediction of new images."""

import json
from contextlib import chdir
from threading import Barrier

import numpy as np
import pytest
import torch

from pipeline import paths
from pipeline.api.feature_cache import open_cache
from pipeline.method.backbone_weights import weighted
from pipeline.problem import source_fit
from pipeline.store.basis_file import read_bases
from pipeline.store.embedding_store import open_embeddings
from pipeline.store.exported_classifier import EXAMPLE
from small_project import PROBLEM, tree_digest
from stream_project import step_entry

pytestmark = pytest.mark.slow


@pytest.fixture
def joined(project_copy):
    """Return the small project with two joined vision models, the second with another preprocessing and type."""
    params = project_copy.read_params()
    params["models"]["other"] = {
        **params["models"]["vit"],
        "preprocessing": {"mean": [0.1] * 3},
        "stored_as": "float32",
    }
    params |= {"joined": [{"name": "both", "first": "vit", "second": "other"}], "vision": "both"}
    project_copy.write_params(params)
    domains = ("left", "right")
    project_copy.run_in_process(
        ("model", "other"),
        *(("embed", domain, "other") for domain in domains),
        *(("join", domain, "both") for domain in domains),
        *(("source", "left"), ("adapt", PROBLEM), ("evaluate", PROBLEM)),
    )
    return project_copy


def test_weights_of_several_seeds_are_chosen_in_parallel_with_the_same_result(joined, monkeypatch):
    before = read_bases(joined.folder / paths.bases("left"))
    barrier, chosen_weights = Barrier(2, timeout=60), source_fit.chosen_weights  # passes when two threads wait

    def wait_and_choose(*args):
        barrier.wait()
        return chosen_weights(*args)

    monkeypatch.setattr(source_fit, "chosen_weights", wait_and_choose)
    joined.change_params(runtime={"workers": 2})
    joined.run_in_process(("source", "left"))
    assert read_bases(joined.folder / paths.bases("left")) == before


def test_joined_models_work_in_every_stage_and_predict_images(joined):
    folder = joined.folder
    stores = {name: open_embeddings(folder / paths.embeddings("right", name)) for name in ("vit", "other", "both")}
    both = stores["both"]
    assert both.model_widths == (stores["vit"].width, stores["other"].width)
    assert [store.dtype("zeros") for store in stores.values()] == ["float16", "float32", "float32"]
    for name, columns in zip(("vit", "other"), np.split(both.read("zeros"), 2, axis=1), strict=True):
        embeddings = stores[name].read("zeros").astype(np.float64)
        unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
        np.testing.assert_allclose(columns, unit, rtol=1e-3, atol=1e-7)
    recipe = read_bases(folder / paths.bases("left")).recipe
    assert [len(weights) for weights in recipe.weights] == [2, 2]
    unweighted = recipe.draw_unweighted(0)
    expected = weighted(unweighted, recipe.widths, recipe.weights[0]).omega
    np.testing.assert_array_equal(recipe.draw(0).omega, expected)
    assert (expected != unweighted.omega).any()
    digest = tree_digest(folder / paths.embeddings("right", "both"))
    joined.run_in_process(("join", "right", "both"), ("compare", PROBLEM), ("sensitivity", PROBLEM, "D"))
    assert tree_digest(folder / paths.embeddings("right", "both")) == digest

    from pipeline.cli.main import main

    cache = open_cache(folder)
    assert cache.models == ("vit", "clip", "other", "both")
    rows = cache.rows("right", "both")
    expected = cache.model(PROBLEM).predict(rows, cache.rows("right", "clip"))
    with chdir(folder):
        assert main(["predict", "--problem", PROBLEM, "--output", "new.json", "data/right"]) == 0
    predicted = json.loads((folder / "new.json").read_text())["images"]
    by_path = {image["image"]: image["class"] for image in predicted}
    classes = [rows.classes[label] for label in expected.label]
    assert by_path == dict(zip(rows.paths, classes, strict=True))


def test_exported_classifiers_of_joined_models_predict_as_the_cache(joined):
    from pipeline.cli.main import main

    params = joined.read_params()
    joined.write_params(params | {"steps": {"camera-week1": step_entry("source/left", "right")}})
    (joined.folder / "corrections.csv").write_text("path,class\n")
    joined.run_in_process(("step", "camera-week1"))
    cache = open_cache(joined.folder)
    rows, clip = cache.rows("right", "both"), cache.rows("right", "clip")
    views = [torch.from_numpy(np.asarray(rows.in_view(view)[:])) for view in ("original", "zeros", "rand")]
    for option, model in (
        (("--problem", PROBLEM), cache.model(PROBLEM)),
        (("--stream", "camera"), cache.stream_model("camera")),
    ):
        expected = model.predict(rows, clip).fused
        with chdir(joined.folder):
            assert main(["export", *option, "--output", "classifier.safetensors"]) == 0
            names: dict = {}
            exec(EXAMPLE, names)  # the example code in the exported file
        p = names["classify"](views, torch.from_numpy(np.asarray(clip[:])))
        np.testing.assert_allclose(p.numpy(), expected, atol=2e-6)
        assert [part["name"] for part in names["about"]["vision"]["model"]["parts"]] == ["vit", "other"]
