"""Test what domains, problems and adapted models of a finished project give access to, and which stores they refuse."""

import json
import pickle
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pipeline import paths
from pipeline.config.params import load_params
from pipeline.errors import StoreError
from pipeline.problem.adapted_model import open_adapted_model
from pipeline.problem.domain import Domain, LabelledDomain
from pipeline.problem.method_options import method_options
from pipeline.problem.problem import Problem
from pipeline.problem.seed import Target
from pipeline.stage import main, open_project
from pipeline.store.basis_file import read_bases
from pipeline.store.embedding_store import EmbeddedView, EmbeddingStore, open_embeddings, write_embeddings

pytestmark = pytest.mark.slow

NAME = "left-right"
VIT, CLIP = (Path(f"cache/embeddings/right/{model}.zarr") for model in ("vit", "clip"))


@pytest.fixture
def project(run_project, monkeypatch):
    """Open the finished project, which tests must not change."""
    monkeypatch.chdir(run_project.folder)
    return open_project(load_params())


@pytest.fixture
def changed(project_copy, monkeypatch):
    """Open a copy of the finished project, which tests may damage."""
    monkeypatch.chdir(project_copy.folder)
    return open_project(load_params())


def rewrite(path, width=None, **provenance):
    """Write a store again with fewer columns or another provenance."""
    store = open_embeddings(path)
    rows = {v: np.ascontiguousarray(store.read(v)[:, :width]) for v in store.views}
    attributes = {k: v for k, v in store.provenance.items() if k not in ("schema", "views")}
    shutil.rmtree(path)
    views = {v: EmbeddedView(*x.shape, str(x.dtype), {}, [x]) for v, x in rows.items()}
    write_embeddings(path, views, attributes | provenance)


def test_a_problem_gives_no_access_to_labels_or_source_rows(project):
    problem = project.problem(NAME)
    assert type(problem) is Problem
    assert type(problem.target) is Domain
    assert not issubclass(Domain, LabelledDomain)
    for part in (problem, problem.target, *problem.source_models(0)):
        assert not hasattr(part, "labels")
    assert isinstance(problem.source, str)  # only a name, not a domain or store
    assert set(Target.__dataclass_fields__) == {"tasks", "test", "clip_scale", "text", "estimate_classes"}
    task = problem.target.task(0, 0, ("original",))
    assert set(vars(task)) == {"views", "cosines", "clip", "classes"}


def test_threads_share_a_view_that_is_read_once(project, monkeypatch):
    read = EmbeddingStore.read
    monkeypatch.setattr(EmbeddingStore, "read", lambda *args: time.sleep(0.05) or read(*args))
    domain = project.problem(NAME).target
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(domain.vision_rows, ["original"] * 2)
    assert first is second


def test_a_pickled_problem_is_small_and_opens_its_stores_again_in_any_folder(project, tmp_path, monkeypatch):
    problem = project.problem(NAME, lazy=True)
    expected = np.asarray(problem.target.vision_rows("zeros")[np.arange(24)])
    pickled = pickle.dumps(problem)
    assert len(pickled) < 2000
    monkeypatch.chdir(tmp_path)
    loaded = pickle.loads(pickled)
    assert np.array_equal(loaded.target.vision_rows("zeros")[np.arange(24)], expected)
    assert loaded.bases.recipe.D == 50


@pytest.mark.parametrize(
    ("store", "provenance", "open_part"),
    [
        (CLIP, {"rows_digest": "of other images"}, lambda project: project.domain("right").clip),
        (VIT, {"rows_digest": "of other images"}, lambda project: project.source_domain("right").labels),
        (VIT, {"rows_digest": "of other images"}, lambda project: project.source_domain("right").image_paths),
        (CLIP, {"weights": "of another model"}, lambda project: project.domain("right").prompts),
        (VIT, {"weights": "other"}, lambda project: project.problem(NAME).check_backbones()),
        (CLIP, {"weights": "other"}, lambda project: project.problem(NAME).check_backbones()),
        (VIT, {"model": {"name": "other"}}, lambda project: project.problem(NAME).check_backbones()),
        (CLIP, {"weights": "other"}, lambda project: project.labelled_problem(NAME)),
    ],
)
def test_a_store_of_other_images_or_another_backbone_is_refused(changed, store, provenance, open_part):
    rewrite(store, **provenance)
    with pytest.raises(StoreError, match=rf"cache/.*{next(iter(provenance))}.*dvc"):
        open_part(changed)


def test_a_store_of_another_width_is_refused(changed, refused):
    rewrite(VIT, width=8)
    line = refused(main, "adapt", NAME)
    assert str(VIT) in line
    assert "dvc repro" in line


def test_domains_with_different_classes_and_stale_prompts_are_refused(changed, project_copy):
    for domain in ("left", "right"):
        folder = project_copy.folder / "data" / domain
        (folder / "dog").rename(folder / "eel")
    assert main(["manifest", "right"]) == main(["order", "right"]) == main(["tasks", "right"]) == 0
    with pytest.raises(StoreError, match=r"cache/manifests/left/tasks/classes.csv"):
        changed.labelled_problem(NAME)
    with pytest.raises(StoreError, match=r"cache/prompts/right.zarr.*dvc repro"):
        _ = changed.domain("right").prompts


def test_a_model_made_with_other_bases_is_refused(changed, project_copy):
    project_copy.change_params(rff={"sigma": 1e-3})
    assert main(["source", "left"]) == 0
    with pytest.raises(StoreError, match=r"cache/target/left-right.zarr"):
        open_adapted_model(changed.problem(NAME), method_options("calibrated", {}), load_params().rff.model_dump())


def test_the_reported_gamma_is_the_mean_over_seeds_if_each_has_its_own(changed, project_copy):
    project_copy.change_params(rff={"convention": "median", "sigma": 1.0}, data={"test_fraction": 0.5})
    assert main(["tasks", "left"]) == main(["source", "left"]) == 0
    gammas = [read_bases(paths.bases("left")).basis(seed).gamma for seed in range(2)]
    assert gammas[0] != pytest.approx(gammas[1], rel=1e-4)
    reported = json.loads(paths.basis_error("toy", "left").read_text())["gamma"]
    assert reported == pytest.approx(np.mean(gammas), rel=1e-5)
