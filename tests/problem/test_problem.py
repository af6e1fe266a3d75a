"""Domains, problems and adapted models of a project that was run: what can be reached, and what is refused."""

import pickle
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pipeline.config.params import load_params
from pipeline.errors import StoreError
from pipeline.problem.adapted_model import open_adapted_model
from pipeline.problem.domain import Domain, LabelledDomain
from pipeline.problem.method_options import method_options
from pipeline.problem.problem import Problem
from pipeline.problem.seed import Target
from pipeline.stage import main, open_project
from pipeline.store.embedding_store import EmbeddedView, EmbeddingStore, open_embeddings, write_embeddings

pytestmark = pytest.mark.slow

NAME = "left-right"
VIT, CLIP = (Path(f"cache/embeddings/right/{model}.zarr") for model in ("vit", "clip"))


@pytest.fixture
def project(run_project, monkeypatch):
    """The project that was run; its tests only read it."""
    monkeypatch.chdir(run_project.folder)
    return open_project(load_params())


@pytest.fixture
def changed(project_copy, monkeypatch):
    """A copy of the project that a test may damage."""
    monkeypatch.chdir(project_copy.folder)
    return open_project(load_params())


def rewrite(path, width=None, **provenance):
    """Write a store again, narrower or with another provenance."""
    store = open_embeddings(path)
    rows = {v: np.ascontiguousarray(store.read(v)[:, :width]) for v in store.views}
    kept = {k: v for k, v in store.provenance.items() if k not in ("schema", "views")}
    shutil.rmtree(path)
    views = {v: EmbeddedView(*x.shape, str(x.dtype), {}, [x]) for v, x in rows.items()}
    write_embeddings(path, views, kept | provenance)


def test_adapting_reaches_no_label_and_no_row_of_the_source(project):
    problem = project.problem(NAME)
    assert type(problem) is Problem
    assert type(problem.target) is Domain
    assert not issubclass(Domain, LabelledDomain)
    for reached in (problem, problem.target, *problem.source_models(0)):
        assert not hasattr(reached, "labels")
    assert isinstance(problem.source, str)  # a name: no domain, no store
    assert set(Target.__dataclass_fields__) == {"tasks", "test", "clip_scale", "text", "estimate_classes"}
    task = problem.target.task(0, 0, ("original",))
    assert set(vars(task)) == {"views", "cosines", "clip", "classes"}


def test_threads_read_a_view_once(project, monkeypatch):
    read = EmbeddingStore.read
    monkeypatch.setattr(EmbeddingStore, "read", lambda *args: time.sleep(0.05) or read(*args))
    domain = project.problem(NAME).target
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(domain.vision_rows, ["original"] * 2)
    assert one is other


def test_domains_and_problems_travel_as_names_and_are_opened_there(project, tmp_path, monkeypatch):
    problem = project.problem(NAME, lazy=True)
    expected = np.asarray(problem.target.vision_rows("zeros")[np.arange(24)])
    text = pickle.dumps(problem)
    assert len(text) < 2000
    monkeypatch.chdir(tmp_path)
    there = pickle.loads(text)
    assert np.array_equal(there.target.vision_rows("zeros")[np.arange(24)], expected)
    assert there.bases.recipe.D == 50


@pytest.mark.parametrize(
    ("store", "provenance", "ask"),
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
def test_a_store_of_other_images_or_of_another_backbone_than_the_sources_is_refused(changed, store, provenance, ask):
    rewrite(store, **provenance)
    with pytest.raises(StoreError, match=rf"cache/.*{next(iter(provenance))}.*dvc"):
        ask(changed)


def test_a_store_of_another_width_is_one_line(changed, refused):
    rewrite(VIT, width=8)
    line = refused(main, "adapt", NAME)
    assert str(VIT) in line
    assert "dvc repro" in line


def test_domains_of_other_classes_are_no_problem_and_their_prompts_are_refused(changed, project_copy):
    for domain in ("left", "right"):
        folder = project_copy.folder / "data" / domain
        (folder / "dog").rename(folder / "eel")
    assert main(["manifest", "right"]) == main(["order", "right"]) == main(["tasks", "right"]) == 0
    with pytest.raises(StoreError, match=r"cache/manifests/left/tasks/classes.csv"):
        changed.labelled_problem(NAME)
    with pytest.raises(StoreError, match=r"cache/prompts/right.zarr.*dvc repro"):
        _ = changed.domain("right").prompts


def test_a_model_of_other_bases_is_refused(changed, project_copy):
    project_copy.change_params(rff={"sigma": 1e-3})
    assert main(["source", "left"]) == 0
    with pytest.raises(StoreError, match=r"cache/target/left-right.zarr"):
        open_adapted_model(changed.problem(NAME), method_options("calibrated", {}), load_params().rff.model_dump())
