"""Projects of every released version: their features are taken over without an image, the rest is made again.

The page is docs/how-to/upgrading.md; of its commands `referee upgrade` is run here,
and the stages that `dvc repro` would run.

An archive holds dvc.lock, params.yaml and the caches of the small project (three images per class), as that version
wrote them. To add one at a release: run the small project at its tag and pack the same folders.
"""

import contextlib
import tarfile
from pathlib import Path

import pytest

from pipeline.cli.main import main
from pipeline.errors import StoreError
from pipeline.store.seal import read_sealed
from pipeline.store.source_store import SCHEMA
from small_project import FEATURES, PROBLEM, SmallProject, small_params, stages_run

ARCHIVES = sorted(Path(__file__).parent.glob("*.tar.xz"))
COSTLY = {"manifest", "model", "embed", "prompts"}

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name)
def project(request, tmp_path):
    """The project after the upgrade, as whoever has neither images nor weights has it."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    project = SmallProject(tmp_path)
    # a suite of one's own, written before models could be joined
    project.write_params({k: v for k, v in small_params().items() if k != "joined"})
    project.add_graph()
    return project


def test_features_are_taken_over_and_nothing_is_extracted_again(project, capsys):
    with contextlib.chdir(project.folder):
        assert main(["upgrade"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "suite.yaml: the new section joined, empty" in lines
    assert project.read_params()["joined"] == []
    taken = {line.split(":")[0] for line in lines if line.endswith(": taken over")}
    wanted = {"@".join((stage, "-".join(keys))) for stage, *keys in FEATURES}
    assert taken == {name for name in wanted if name.split("@")[0] in COSTLY}
    done = project.run("dvc", "repro", "--allow-missing", "--dry", "embed", "prompts", "tasks")
    assert stages_run(done.stdout) == {"tasks@left", "tasks@right"}
    tasks = [("tasks", domain) for domain in ("left", "right")]
    project.run_here(*tasks, ("basis", "left"), ("source", "left"))
    project.run_here(("adapt", PROBLEM), ("evaluate", PROBLEM))
    assert project.results("evaluations", f"{PROBLEM}.json").is_file()


def test_a_store_of_an_older_schema_is_named_with_the_command_that_helps(project):
    path = project.folder / "cache/source/left.zarr"
    with pytest.raises(StoreError, match=rf"{path}: schema .*dvc repro --allow-missing.*upgrading"):
        read_sealed(path, SCHEMA)


def test_what_changed_meanwhile_is_not_taken_over(project, capsys):
    images = project.folder / "cache/manifests/right/images.csv"
    images.write_text("".join(images.read_text().splitlines(keepends=True)[:-1]))
    with contextlib.chdir(project.folder):
        assert main(["upgrade"]) == 0
    out = capsys.readouterr().out
    assert "embed@left-vit: taken over" in out
    assert "embed@right-vit: taken over" not in out
