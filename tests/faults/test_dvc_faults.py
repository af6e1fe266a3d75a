"""Whole `dvc` commands disturbed: killed, run twice at once, under a clock that jumps, cut off while sharing."""

import hashlib
import json
import os
import random
import shutil
import signal
import time

import pytest
from dvc.dvcfile import Lockfile
from dvc.exceptions import DvcException
from dvc.repo import Repo

from faults.test_killed_stages import leftovers
from sharing_story import locked
from small_project import PROBLEM, tree_digest

pytestmark = pytest.mark.slow

OUTPUTS = ("cache/source", "cache/target", "results/toy/problems")
MADE_BY = {"source": "source@left", "target": "adapt@left-right"}


def kill(process):
    """SIGKILL a command and all it started; return whether it was still at work."""
    alive = process.poll() is None
    if alive:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return alive


def outputs(project):
    return {name: tree_digest(project.folder / name) for name in OUTPUTS}


def mend_files_of_dvc(project):
    """DVC writes two files in place, and refuses them where it was cut off in that moment; do as the page says."""
    held = project.folder / ".dvc/tmp/rwlock"  # who reads and writes what at the moment: nobody
    try:
        json.loads(held.read_text() if held.exists() else "{}")
    except ValueError:
        held.unlink()
    with Repo(str(project.folder)) as repo:
        try:
            Lockfile(repo, str(project.folder / "dvc.lock")).load()
        except DvcException:
            project.run("git", "checkout", "--quiet", "dvc.lock")


def test_what_dvc_was_writing_is_refused_and_mended(project_copy):
    lock = project_copy.folder / "dvc.lock"
    whole = lock.read_text()
    lock.write_text("")
    assert "dvc.lock" in project_copy.run("dvc", "repro", ok=False).stderr
    (project_copy.folder / ".dvc/tmp/rwlock").write_text("")
    mend_files_of_dvc(project_copy)
    assert lock.read_text() == whole
    assert project_copy.repro() == set()


def forget(project):
    """Make the statistics be computed again: results gone, and DVC's memory of them too."""
    shutil.rmtree(project.folder / ".dvc/cache/runs", ignore_errors=True)
    for name in OUTPUTS:
        for made in (project.folder / name).iterdir():
            if made.name != "README.md":  # of the stage `code`
                shutil.rmtree(made) if made.is_dir() else made.unlink()


@pytest.mark.parametrize("kills", [1, pytest.param(15, marks=pytest.mark.long)])
def test_dvc_repro_killed_with_its_stages(project_copy, kills):
    """At random moments after its first stage began; then it may end."""
    expected, chosen = outputs(project_copy), random.Random(kills)
    forget(project_copy)
    lock = locked(project_copy)
    killed = 0
    for _ in range(kills):
        process = project_copy.start("dvc", "repro", "--force", "--downstream", "source@left")
        for line in process.stdout:
            if "Running stage" in line:
                break
        time.sleep(chosen.uniform(0, 1.5))  # the four stages take about three seconds
        killed += kill(process)
        mend_files_of_dvc(project_copy)
    assert killed == kills
    ran = project_copy.repro()
    assert outputs(project_copy) == expected
    # the report's page names the git revision
    assert {**locked(project_copy), "report": None} == {**lock, "report": None}
    begun = leftovers(project_copy.folder / "cache")
    assert not [path for path in begun if MADE_BY[path.parent.name] in ran]
    if begun:  # DVC fetched those outputs instead of running their stages, which would have cleared up
        project_copy.repro("--force", "--downstream", "source@left")
        assert outputs(project_copy) == expected
        assert not leftovers(project_copy.folder / "cache")


@pytest.mark.long
def test_two_at_once_end_as_one(project_copy):
    expected = outputs(project_copy)
    forget(project_copy)
    command = ("dvc", "repro", "--force", "--downstream", "source@left", f"sensitivity_sigma@{PROBLEM}")
    both = [project_copy.start(*command) for _ in range(2)]
    printed = ["".join(process.communicate()) for process in both]
    codes = [process.returncode for process in both]
    assert 0 in codes, printed
    for code, text in zip(codes, printed, strict=True):
        if code:  # it says that the other one is at work
            assert "lock" in text.lower() or "busy" in text.lower() or "being used" in text, text
    project_copy.run("dvc", "repro")
    assert outputs(project_copy) == expected
    assert not leftovers(project_copy.folder / "cache")


@pytest.mark.long
@pytest.mark.parametrize("jump", [-10 * 365 * 86400, 10 * 365 * 86400], ids=["back", "ahead"])
def test_a_clock_that_jumps_changes_nothing(project_copy, jump):
    """Ten years back or ahead: every file's time jumps, and so does the clock that Python shows to the stages."""
    expected = {**outputs(project_copy), "cache": tree_digest(project_copy.folder / "cache")}
    for path in project_copy.folder.rglob("*"):
        if path.is_file() and ".dvc" not in path.parts and not path.is_symlink():
            then = path.stat().st_mtime + jump
            os.utime(path, (then, then))
    assert project_copy.repro() == set(), "a stage ran again because of a time"
    hook = project_copy.folder / "clock" / "sitecustomize.py"
    hook.parent.mkdir()
    hook.write_text(
        "import itertools, time\n"
        f"real, jumps = time.time, itertools.cycle([0, {jump}])\n"
        "time.time = lambda: real() + next(jumps)\n"
        "time.time_ns = lambda: int(time.time() * 1e9)\n"
    )
    for stage, argument in (("manifest", "right"), ("source", "left"), ("adapt", PROBLEM)):
        project_copy.stage(stage, argument, PYTHONPATH=str(hook.parent))
    assert {**outputs(project_copy), "cache": tree_digest(project_copy.folder / "cache")} == expected


def objects(remote):
    return [p for p in remote.rglob("*") if p.is_file()]


def whole_objects(remote):
    """Return how many objects have their final name, the MD5 of their content; each of them must be whole."""
    named = {p: p.parent.name + p.name.removesuffix(".dir") for p in objects(remote)}
    named = {p: name for p, name in named.items() if len(name) == 32}
    assert all(hashlib.md5(p.read_bytes()).hexdigest() == name for p, name in named.items())
    return len(named)


def cut_off(project, command, folder, kills=6):
    """SIGKILL a transfer so many times, each time once some files have come."""
    chosen, killed = random.Random(1), 0
    for _ in range(4 * kills + 4):
        transfer, wanted = (project.start("dvc", *command), len(objects(folder)) + chosen.randint(1, 20))
        while transfer.poll() is None and len(objects(folder)) < wanted:
            time.sleep(0.002)
        killed += kill(transfer)
        if killed == kills:
            return
        if transfer.returncode == 0:  # it came to its end: begin with nothing again
            shutil.rmtree(folder)
            folder.mkdir()
    pytest.fail(f"{command}: never cut off")


@pytest.mark.long  # whether DVC's own transfers are whole; tests of sharing push and pull undisturbed
def test_push_and_pull_cut_off_many_times(project_copy, tmp_path):
    remote, store = tmp_path / "remote", project_copy.folder / ".dvc/cache"
    remote.mkdir()
    project_copy.run("dvc", "remote", "add", "--default", "team", str(remote))
    shared = ("cache/embeddings", "cache/target")
    expected = [tree_digest(project_copy.folder / name) for name in shared]
    cut_off(project_copy, ("push",), remote)
    whole_objects(remote)
    project_copy.run("dvc", "push")
    assert whole_objects(remote) > 50
    for name in (".dvc/cache", *shared):
        shutil.rmtree(project_copy.folder / name)
    store.mkdir()
    cut_off(project_copy, ("pull", "--allow-missing"), store)
    project_copy.run("dvc", "pull", "--allow-missing")
    assert [tree_digest(project_copy.folder / name) for name in shared] == expected
    assert project_copy.repro() == set()
