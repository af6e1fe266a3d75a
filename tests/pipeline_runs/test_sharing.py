"""Features shared through a DVC remote: a teammate with no images and no weights changes sigma and gets a result."""

import json
import shutil

import pytest

from small_project import SmallProject

pytestmark = pytest.mark.slow

COMPUTED_ANEW = {"basis@left", "source@left"} | {
    f"{stage}@left-right" for stage in ("pseudo_label", "refine", "adapt", "evaluate")
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Return a project that was run, pushed and committed, as the README says."""
    made = SmallProject(tmp_path_factory.mktemp("owner")).create(per_class=3, dvc=True)
    made.run("git", "config", "user.email", "owner@example.invalid")
    made.run("git", "config", "user.name", "Owner")
    remote = tmp_path_factory.mktemp("remote")
    made.run("dvc", "remote", "add", "--default", "team", str(remote))
    made.repro()
    made.run("dvc", "push")
    made.run("git", "add", ".")
    made.run("git", "commit", "--quiet", "-m", "features of our images")
    return made


def test_a_teammate_without_images_or_weights(shared, tmp_path):
    shared.run("git", "clone", "--quiet", str(shared.folder), str(tmp_path / "mate"))
    mate = SmallProject(tmp_path / "mate")
    # folders that stages depend on; in the real repository git keeps them
    for folder in ("cache/lists", "results/comparison", "results/sensitivity"):
        (mate.folder / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(shared.folder / folder / "README.md", mate.folder / folder)
    assert not (mate.folder / "data").exists()
    assert not (mate.folder / "weights").exists()
    mate.run("dvc", "pull", "--allow-missing")
    assert mate.repro("--pull", "--allow-missing") == set()
    before = json.loads((mate.folder / "results/bases/left.json").read_text())
    mate.change_params(rff={"sigma": 1e-2})
    assert mate.repro("--pull", "--allow-missing") <= COMPUTED_ANEW
    after = json.loads((mate.folder / "results/bases/left.json").read_text())
    assert after["gamma"] == 100 * before["gamma"]
    assert "left-right" in mate.run("referee", "summary").stdout
    assert not (mate.folder / "data").exists()


def test_an_experiment_is_compared_with_what_was_committed(shared):
    shared.run("dvc", "exp", "run", "--set-param", "rff.D=20", "--name", "small-basis")
    (shown,) = json.loads(shared.run("dvc", "exp", "show", "--json").stdout)[1:]
    committed = shown["data"]["metrics"]["results/bases/left.json"]["data"]
    (experiment,) = shown["experiments"]
    tried = experiment["revs"][0]["data"]["metrics"]["results/bases/left.json"]["data"]
    assert (committed["D"], tried["D"]) == (50, 20)
    difference = json.loads(shared.run("dvc", "metrics", "diff", "--json").stdout)
    assert difference["results/bases/left.json"]["D"] == {"old": 50, "new": 20, "diff": -30}
