"""`referee init` creates a project without a clone. test_installed_package.py runs such a project."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipeline.cli import init
from pipeline.cli.main import main
from pipeline.installed_project import copy_file
from pipeline.stage import main as run_stage
from small_project import ROOT, SmallProject

pytestmark = pytest.mark.slow


def load(path):
    return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("init") / "photos"
    assert main(["init", str(folder)]) == 0
    return SmallProject(folder)


def test_graph_differs_from_a_clone_only_in_the_package(project):
    graph, clone = load(project.folder / "dvc.yaml"), load(ROOT / "dvc.yaml")
    assert graph["stages"]["code"].pop("always_changed") is True
    assert clone["stages"]["code"].pop("deps") == ["pipeline", "suite.yaml"]
    assert graph == clone
    assert "pipeline/" not in (project.folder / "dvc.yaml").read_text()


def test_upgrade_replaces_the_graph_but_keeps_own_stages_and_parameters(
    project, tmp_path, monkeypatch, capsys, refused
):
    """Before the upgrade, `dvc repro` stops at the first stage."""
    folder, newer = shutil.copytree(project.folder, tmp_path / "copy"), tmp_path / "newer"
    for name in (*init.COPIED, "dvc.yaml"):
        copy_file(name, newer / name)
    (newer / "dvc.yaml").write_text((ROOT / "dvc.yaml").read_text().replace("  probe:", "  look:"))
    (newer / "docs/new.md").write_text("new")
    monkeypatch.chdir(folder)
    stage = "  mine:\n    cmd: echo mine\n"
    Path("dvc.yaml").write_text(Path("dvc.yaml").read_text().replace("\n  code:", f"\n{stage}  code:"))
    params = Path("params.yaml").read_text().replace("D: 1000", "D: 70")
    Path("params.yaml").write_text(re.sub(r"^select:\n(?:[ #].*\n)*", "", params, flags=re.MULTILINE))

    monkeypatch.setattr("pipeline.installed_project.project_files", lambda: newer)
    assert main(["upgrade"]) == 0
    assert "select" in capsys.readouterr().out
    stages = load(Path("dvc.yaml"))["stages"]
    assert {"look", "mine"} <= set(stages)
    assert "probe" not in stages
    assert load(Path("params.yaml"))["rff"]["D"] == 70
    assert Path("docs/new.md").is_file()
    assert run_stage(["code"]) == 0
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert "referee upgrade" in refused(run_stage, "code")


def test_project_is_a_git_and_dvc_repository_with_a_valid_suite(project, monkeypatch):
    assert "README.md" in project.run("git", "status", "--porcelain").stdout
    assert "generate@mnist" in project.run("dvc", "stage", "list").stdout
    monkeypatch.chdir(project.folder)
    assert main(["check"]) == 0
    assert (project.folder / "weights/digits/vit/model.safetensors").is_file()
    project.run("git", "add", ".")
    staged = project.run("git", "diff", "--cached", "--name-only").stdout.split()
    assert {"dvc.yaml", "suites/office31.yaml", ".dvc/plots/sweep.json"} <= set(staged)
    assert "weights/digits/vit/model.safetensors" in staged


def test_other_suites_come_without_the_digits_weights(tmp_path):
    assert main(["init", str(tmp_path / "new"), "--suite", "office31"]) == 0
    assert load(tmp_path / "new/suite.yaml")["suite"] == "office31"
    assert [path.name for path in (tmp_path / "new/weights").iterdir()] == ["README.md"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("there",), ("there", "exists")), (("new", "--suite", "ofice31"), ("ofice31", "'office31'"))],
)
def test_wrong_arguments_are_reported_and_leave_nothing(tmp_path, monkeypatch, refused, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    error = refused(main, "init", *arguments)
    assert all(word in error for word in words)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_wheel_contains_all_files_of_a_project():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    included = build["targets"]["wheel"]["force-include"]
    assert set(included) == {"dvc.yaml", init.WEIGHTS, *init.COPIED}
    assert all(target == f"pipeline/project_files/{name}" for name, target in included.items())
