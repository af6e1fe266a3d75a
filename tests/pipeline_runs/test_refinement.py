"""The two text-only steps, end to end: off they cost nothing, on they change the target and read no label."""

import sys

import pytest

from small_project import PROBLEM, tree_digest

# off by default; its parts are tested one by one elsewhere
pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture(scope="module")
def project(run_project):
    return run_project


def adapt(project, **settings):
    """Return the digest of the target's model."""
    project.change_params(refinement=settings)
    project.run_here(("adapt", PROBLEM))
    assert not list(project.folder.glob(".referee/scratch/*"))
    return tree_digest(project.folder / f"cache/target/{PROBLEM}.zarr")


def test_off_loads_no_backbone_and_reads_no_image(project):
    project.change_params(refinement={"steps": 0, "mutual_attention": False})
    images = project.folder / "data"
    images.rename(project.folder / "gone")
    code = (
        "import sys; from pipeline.stage import main; main(['adapt', 'left-right']); "
        "sys.exit(bool({'torch', 'timm', 'open_clip', 'PIL'} & set(sys.modules)))"
    )
    project.run(sys.executable, "-c", code)
    (project.folder / "gone").rename(images)


def test_on_it_changes_the_target_reproducibly_and_reads_no_source_row_and_no_label(project):
    off = adapt(project, steps=0, mutual_attention=False)
    both = {"steps": 2, "mutual_attention": True}
    on = adapt(project, **both)
    alone = [adapt(project, **(both | {key: type(both[key])(0)})) for key in both]
    assert len({off, on, *alone}) == 4

    folders = ("cache/embeddings/left", "data/left", "cache/manifests/left", "cache/manifests/right/labels")
    sources = [path for name in folders for path in (project.folder / name).rglob("*")]
    kept = {path: path.read_bytes() for path in sources if path.is_file()}
    for path in kept:
        path.write_bytes(b"destroyed")
    project.change_params(runtime={"workers": 1})
    again = adapt(project, **both)
    for path, content in kept.items():
        path.write_bytes(content)
    assert again == on
    assert adapt(project, steps=0, mutual_attention=False) == off


def test_what_cannot_be_refined_is_one_line(project):
    before = project.read_params()
    project.change_params(refinement={"steps": 1, "mutual_attention": False})

    def refused(**sections):
        params = project.read_params()
        project.change_params(**sections)
        line = project.refusal("adapt", PROBLEM)
        project.write_params(params)
        return line

    imported = {"library": "imported", "name": "theirs", "origin": "x.npz"}
    assert "models.vit is imported" in refused(models={"vit": imported})
    right = {**before["domains"]["right"], "views": ["original"]}
    assert "domains.right.views has no view but the original" in refused(domains={"right": right})
    clip = {"library": "open_clip", "name": "tiny", "origin": "weights/clip"}
    assert "model 'tiny' has no patch tokens" in refused(
        models={"vit": clip}, refinement={"steps": 0, "mutual_attention": True}
    )
    project.write_params(before)
