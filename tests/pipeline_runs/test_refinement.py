"""The two text-only steps, end to end: off they cost nothing, on they change the target and read no label."""

import sys

import numpy as np
import pytest

from pipeline.datasets.manifest_files import read_tasks
from pipeline.store.array_store import open_arrays
from pipeline.store.embedding_store import open_embeddings
from pipeline.store.refined_store import SCHEMA
from small_project import tree_digest

# off by default; its parts are tested one by one elsewhere
pytestmark = [pytest.mark.slow, pytest.mark.long]

REFINED, TARGET = (f"cache/{kind}/left-right.zarr" for kind in ("refined", "target"))


@pytest.fixture(scope="module")
def project(run_project):
    return run_project


def refine_and_adapt(project, **settings):
    """Run both stages; return the digests of what they wrote."""
    project.change_params(refinement=settings)
    project.run_here(("refine", "left-right"), ("adapt", "left-right"))
    return [tree_digest(project.folder / path) for path in (REFINED, TARGET)]


def test_off_loads_no_backbone_and_reads_no_image(project):
    project.change_params(refinement={"steps": 0, "mutual_attention": False})
    images = list((project.folder / "data").rglob("*.png"))
    kept = [image.read_bytes() for image in images]
    for image in images:
        image.unlink()
    code = (
        "import sys; from pipeline.stage import main; main(['refine', 'left-right']); "
        "sys.exit(bool({'torch', 'timm', 'open_clip', 'PIL'} & set(sys.modules)))"
    )
    output = project.run(sys.executable, "-c", code).stdout
    for image, content in zip(images, kept, strict=True):
        image.write_bytes(content)
    assert "off (refinement.steps: 0" in output
    assert open_arrays(project.folder / REFINED, SCHEMA).attributes["off"] is True


def test_on_it_changes_the_target_reproducibly_and_reads_no_source_row_and_no_label(project):
    off = refine_and_adapt(project, steps=0, mutual_attention=False)
    on = refine_and_adapt(project, steps=2, mutual_attention=True)
    assert on[0] != off[0]
    assert on[1] != off[1]
    store = open_arrays(project.folder / REFINED, SCHEMA)
    tasks = read_tasks(project.folder / "cache/manifests/right/tasks.csv")
    for view in ("zeros", "rand"):
        rows = store.read(view)
        assert rows.dtype == np.float16
        assert rows.shape == (2, 24, 24)
        assert np.array_equal(np.isnan(rows).any(axis=2), tasks.test.T)
    assert not list((project.folder / ".referee/scratch").iterdir())

    sources = [*(project.folder / "cache/embeddings/left").rglob("*")]
    sources += [*(project.folder / "data/left").rglob("*")]
    sources += (project.folder / "cache/manifests/left").iterdir()
    sources += [project.folder / "cache/manifests/right/labels.csv"]
    kept = {path: path.read_bytes() for path in sources if path.is_file()}
    for path in kept:
        path.write_bytes(b"destroyed")
    project.change_params(runtime={"workers": 1})
    again = refine_and_adapt(project, steps=2, mutual_attention=True)
    for path, content in kept.items():
        path.write_bytes(content)
    assert again == on
    assert refine_and_adapt(project, steps=0, mutual_attention=False) == off


def test_each_step_alone(project):
    refine_and_adapt(project, steps=0, mutual_attention=True)
    rows = open_arrays(project.folder / REFINED, SCHEMA).read("zeros")
    in_both = ~np.isnan(rows).any(axis=(0, 2))
    assert np.array_equal(rows[0, in_both], rows[1, in_both])  # no label, no seed
    assert 0 < in_both.sum() < 24

    refine_and_adapt(project, steps=1, step_size=1e-3, mutual_attention=False)
    rows = open_arrays(project.folder / REFINED, SCHEMA).read("zeros")
    plain = open_embeddings(project.folder / "cache/embeddings/right/vit.zarr").read("zeros")
    moved = np.abs(rows - plain).max(axis=2)
    assert np.nanmin(moved) > 0
    assert np.nanmax(moved) < 0.1 * np.abs(plain).max()


def test_what_cannot_be_refined_is_one_line(project):
    before = project.read_params()
    project.change_params(refinement={"steps": 1, "mutual_attention": False})

    def refused(**sections):
        params = project.read_params()
        project.change_params(**sections)
        done = project.stage("refine", "left-right", ok=False)
        project.write_params(params)
        assert done.returncode == 2
        (line,) = done.stderr.strip().splitlines()
        return line

    imported = {"library": "imported", "name": "theirs", "origin": "x.npz"}
    assert "model 'vit' (theirs) is imported" in refused(models={"vit": imported})
    right = {**before["domains"]["right"], "views": ["original"]}
    assert "domains.right.views has no view but the original" in refused(domains={"right": right})
    clip = {"library": "open_clip", "name": "tiny", "origin": "weights/clip"}
    assert "model 'tiny' has no patch tokens" in refused(
        models={"vit": clip}, refinement={"steps": 0, "mutual_attention": True}
    )
    project.write_params(before)
