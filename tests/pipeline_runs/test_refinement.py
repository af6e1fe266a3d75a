"""Refinement end to end: both parts change the adapted model and read no label."""

import pytest

from small_project import PROBLEM, tree_digest

# off by default; its parts are tested elsewhere
pytestmark = [pytest.mark.slow, pytest.mark.long]


def adapt(project, **settings):
    """Adapt with these settings of `refinement`; return the digest of the adapted model."""
    project.change_params(refinement=settings)
    project.run_in_process(("adapt", PROBLEM))
    assert not list(project.folder.glob(".referee/scratch/*"))
    return tree_digest(project.folder / f"cache/target/{PROBLEM}.zarr")


def test_refinement_is_reproducible_and_reads_no_source_row_and_no_label(run_project):
    off = adapt(run_project, steps=0, mutual_attention=False)
    settings = {"steps": 2, "mutual_attention": True}
    on = adapt(run_project, **settings)
    only_attention = adapt(run_project, steps=0, mutual_attention=True)
    only_steps = adapt(run_project, steps=2, mutual_attention=False)
    assert len({off, on, only_attention, only_steps}) == 4

    folders = ("cache/embeddings/left", "data/left", "cache/manifests/left", "cache/manifests/right/labels")
    paths = [path for name in folders for path in (run_project.folder / name).rglob("*")]
    contents = {path: path.read_bytes() for path in paths if path.is_file()}
    for path in contents:
        path.write_bytes(b"destroyed")
    run_project.change_params(runtime={"workers": 1})
    repeated = adapt(run_project, **settings)
    for path, content in contents.items():
        path.write_bytes(content)
    assert repeated == on
    assert adapt(run_project, steps=0, mutual_attention=False) == off
