"""`referee merge-lock`: git merges two branches that both changed dvc.lock, stage by stage."""

import pytest
from ruamel.yaml import YAML

from pipeline.cli.main import main
from pipeline.dvc_lock import write_stages
from small_project import SmallProject


def entry(md5):
    return {"cmd": "python -m pipeline.stages embed", "outs": [{"path": "x", "md5": md5}]}


@pytest.fixture
def clone(tmp_path):
    """Create two branches: ours adds `uci`, theirs adds `print` and removes `old`, and `adapt` differs between them."""
    clone = SmallProject(tmp_path)
    clone.git_init()
    base = {"embed@mnist-vit": entry("1"), "adapt@mnist-uci": entry("1")}
    write_and_commit(clone, base | {"embed@old-vit": entry("1")})
    clone.run("git", "checkout", "--quiet", "-b", "theirs")
    write_and_commit(clone, base | {"embed@print-vit": entry("3"), "adapt@mnist-uci": entry("3")})
    clone.run("git", "checkout", "--quiet", "-b", "ours", "HEAD~1")
    ours = {"embed@old-vit": entry("1"), "embed@uci-vit": entry("2"), "adapt@mnist-uci": entry("2")}
    write_and_commit(clone, base | ours)
    return clone


def write_and_commit(clone, stages):
    write_stages(stages, clone.folder / "dvc.lock")
    clone.commit("stages")


def assert_merged(clone):
    stages = YAML(typ="safe").load((clone.folder / "dvc.lock").read_text())["stages"]
    assert stages == {"embed@mnist-vit": entry("1"), "embed@uci-vit": entry("2"), "embed@print-vit": entry("3")}


def test_command_resolves_a_conflict_left_by_git(clone, monkeypatch, refused, capsys):
    monkeypatch.chdir(clone.folder)
    assert "no conflict" in refused(main, "merge-lock")
    assert clone.run("git", "merge", "theirs", ok=False).returncode == 1
    assert main(["merge-lock"]) == 0
    assert "adapt@mnist-uci" in capsys.readouterr().err
    assert_merged(clone)


def test_the_driver_is_installed_in_a_clone_only(tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    assert "git init" in refused(main, "merge-lock", "--install")


def test_git_merges_without_conflict_once_the_driver_is_installed(clone):
    clone.run("referee", "merge-lock", "--install")
    clone.commit("attributes")
    clone.run("git", "merge", "--no-edit", "theirs")
    assert_merged(clone)
