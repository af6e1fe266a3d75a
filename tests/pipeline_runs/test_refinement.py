"""The two text-only steps, end to end: they change the target and read no label."""

import pytest

from small_project import PROBLEM, tree_digest

# off by default; its parts are tested one by one elsewhere
pytestmark = [pytest.mark.slow, pytest.mark.long]


def adapt(project, **settings):
    """Return the digest of the target's model."""
    project.change_params(refinement=settings)
    project.run_here(("adapt", PROBLEM))
    assert not list(project.folder.glob(".referee/scratch/*"))
    return tree_digest(project.folder / f"cache/target/{PROBLEM}.zarr")


def test_on_it_changes_the_target_reproducibly_and_reads_no_source_row_and_no_label(run_project):
    off = adapt(run_project, steps=0, mutual_attention=False)
    both = {"steps": 2, "mutual_attention": True}
    on = adapt(run_project, **both)
    attention_alone = adapt(run_project, steps=0, mutual_attention=True)
    steps_alone = adapt(run_project, steps=2, mutual_attention=False)
    assert len({off, on, attention_alone, steps_alone}) == 4

    folders = ("cache/embeddings/left", "data/left", "cache/manifests/left", "cache/manifests/right/labels")
    sources = [path for name in folders for path in (run_project.folder / name).rglob("*")]
    kept = {path: path.read_bytes() for path in sources if path.is_file()}
    for path in kept:
        path.write_bytes(b"destroyed")
    run_project.change_params(runtime={"workers": 1})
    again = adapt(run_project, **both)
    for path, content in kept.items():
        path.write_bytes(content)
    assert again == on
    assert adapt(run_project, steps=0, mutual_attention=False) == off
