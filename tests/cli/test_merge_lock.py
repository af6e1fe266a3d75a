"""Two branches that both changed dvc.lock are merged by real git, stage by stage."""

import subprocess
import sys

import pytest
from ruamel.yaml import YAML

from pipeline.cli.merge_lock import merge, write


def git(folder, *arguments, ok=True):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *arguments], check=False, cwd=folder, capture_output=True, text=True)
    assert not ok or done.returncode == 0, done.stderr
    return done


def referee(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "pipeline.cli.main", *arguments], check=False, cwd=folder, capture_output=True, text=True
    )


def entry(md5):
    return {"cmd": "python -m pipeline.stages embed", "outs": [{"path": "x", "md5": md5}]}


def stages(folder):
    return YAML(typ="safe").load((folder / "dvc.lock").read_text())["stages"]


@pytest.fixture
def clone(tmp_path):
    """Ours extracted `uci`, theirs extracted `print`, and both changed `adapt`, differently."""
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    base = {"embed@mnist-vit": entry("1"), "adapt@mnist-uci": entry("1")}
    for branch, change in (
        ("main", {}),
        ("theirs", {"embed@print-vit": entry("3"), "adapt@mnist-uci": entry("3")}),
        ("main", {"embed@uci-vit": entry("2"), "adapt@mnist-uci": entry("2")}),
    ):
        if change:
            git(tmp_path, "checkout", "--quiet", *(["-b"] if branch == "theirs" else []), branch)
        write({**base, **change}, tmp_path / "dvc.lock")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "--quiet", "-m", branch)
    return tmp_path


def check(folder):
    assert stages(folder) == {"embed@mnist-vit": entry("1"), "embed@uci-vit": entry("2"), "embed@print-vit": entry("3")}


def test_a_conflict_is_resolved_afterwards(clone):
    assert git(clone, "merge", "theirs", ok=False).returncode == 1
    done = referee(clone, "merge-lock")
    assert done.returncode == 0, done.stderr
    assert "adapt@mnist-uci" in done.stderr
    check(clone)


def test_git_merges_by_itself_once_the_driver_is_installed(clone, monkeypatch):
    referee(clone, "merge-lock", "--install")
    driver = f"{sys.executable} -m pipeline.cli.main merge-lock %O %A %B"
    git(clone, "config", "merge.referee-lock.driver", driver)  # the tests' Python, whatever is on the path
    git(clone, "add", "-A")
    git(clone, "commit", "--quiet", "-m", "attributes")
    git(clone, "merge", "--no-edit", "theirs")
    check(clone)


def test_without_a_conflict_it_is_one_line(clone):
    done = referee(clone, "merge-lock")
    assert done.returncode == 2
    assert "no conflict" in done.stderr


def test_a_stage_that_one_side_removed_stays_removed():
    base = {"embed@old-vit": 1, "source@mnist": 1}
    assert merge(base, {"source@mnist": 1}, base) == ({"source@mnist": 1}, [])
