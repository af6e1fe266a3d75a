"""Import the stores of another project in place of a model.

These are the commands of docs/how-to/own-features.md, with a local project and `dvc get` instead of `dvc import`.
"""

import shutil

import pytest

from pipeline.store.embedding_store import open_embeddings
from pipeline.store.prompt_store import open_prompts
from small_project import SmallProject, feature_stages

pytestmark = pytest.mark.slow


@pytest.fixture
def second(finished, tmp_path):
    """Return another project with the same images of `left`, and the stores of the first project in features/."""
    first = SmallProject(tmp_path / "first")
    shutil.copytree(finished, first.folder, symlinks=True)
    second = SmallProject(tmp_path / "second")
    shutil.copytree(finished / "data", second.folder / "data")
    params = first.read_params()
    for key in ("vit", "clip"):
        params["models"][key] = {"library": "imported", "name": key, "origin": f"features/{key}"}
    second.write_params(params)
    for path, copy in (
        ("embeddings/left/vit", "vit/left"),
        ("embeddings/left/clip", "clip/left"),
        ("prompts/left", "clip/prompts/left"),
    ):
        (second.folder / "features" / copy).parent.mkdir(parents=True, exist_ok=True)
        source, target = (str(first.folder), f"cache/{path}.zarr"), f"features/{copy}.zarr"
        second.run("dvc", "get", "--quiet", *source, "-o", target)
    return second


def test_a_store_of_another_project_is_copied_with_its_provenance(second, finished):
    second.run_in_process(*feature_stages("left"))
    for model in ("vit", "clip"):
        original, imported = (
            open_embeddings(folder / f"cache/embeddings/left/{model}.zarr") for folder in (finished, second.folder)
        )
        assert imported.provenance == original.provenance
        for view in original.views:
            assert (imported.read(view) == original.read(view)).all()
    texts = open_prompts(second.folder / "cache/prompts/left.zarr")
    assert (texts.text == open_prompts(finished / "cache/prompts/left.zarr").text).all()
    second.run_in_process(("probe", "left"))

    (second.folder / "data/left/ant/0.png").unlink()
    second.run_in_process(("manifest", "left"))
    assert "features/vit/left.zarr: extracted from other images" in second.refusal("embed", "left", "vit")
