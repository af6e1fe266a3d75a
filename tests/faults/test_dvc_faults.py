"""Disturb whole `dvc` commands: kill them, run two at once, let the clock jump, interrupt transfers."""

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
    """SIGKILL a command and its children; return whether it was still running."""
    alive = process.poll() is None
    if alive:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return alive


def outputs(project):
    return {name: tree_digest(project.folder / name) for name in OUTPUTS}


def repair_dvc_files(project):
    """Repair, as documented, two files that DVC writes in place and refuses if they are incomplete."""
    locks = project.folder / ".dvc/tmp/rwlock"  # lists current readers and writers; there are none
    try:
        json.loads(locks.read_text() if locks.exists() else "{}")
    except ValueError:
        locks.unlink()
    with Repo(str(project.folder)) as repo:
        try:
            Lockfile(repo, str(project.folder / "dvc.lock")).load()
        except DvcException:
            project.run("git", "checkout", "--quiet", "dvc.lock")


def test_incomplete_dvc_files_are_refused_and_can_be_repaired(project_copy):
    lock = project_copy.folder / "dvc.lock"
    whole = lock.read_text()
    lock.write_text("")
    assert "dvc.lock" in project_copy.run("dvc", "repro", ok=False).stderr
    (project_copy.folder / ".dvc/tmp/rwlock").write_text("")
    repair_dvc_files(project_copy)
    assert lock.read_text() == whole
    assert project_copy.repro() == set()


def forget(project):
    """Delete the statistics from the project and from DVC's run-cache, so that they are computed again."""
    shutil.rmtree(project.folder / ".dvc/cache/runs", ignore_errors=True)
    for name in OUTPUTS:
        for path in (project.folder / name).iterdir():
            if path.name != "README.md":  # written by the stage `code`
                shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("kills", [1, pytest.param(15, marks=pytest.mark.long)])
def test_killed_dvc_repro_ends_with_the_same_outputs(project_copy, kills):
    """It is killed with its stages, at random moments after the first stage began."""
    expected, rng = outputs(project_copy), random.Random(kills)
    forget(project_copy)
    lock = locked(project_copy)
    killed = 0
    for _ in range(kills):
        process = project_copy.start("dvc", "repro", "--force", "--downstream", "source@left")
        for line in process.stdout:
            if "Running stage" in line:
                break
        time.sleep(rng.uniform(0, 1.5))  # the four stages take about three seconds
        killed += kill(process)
        repair_dvc_files(project_copy)
    assert killed == kills
    ran = project_copy.repro()
    assert outputs(project_copy) == expected
    # the report contains the git revision
    assert {**locked(project_copy), "report": None} == {**lock, "report": None}
    remaining = leftovers(project_copy.folder / "cache")
    assert not [path for path in remaining if MADE_BY[path.parent.name] in ran]
    if remaining:  # DVC restored those outputs instead of running their stages, which would have cleaned up
        project_copy.repro("--force", "--downstream", "source@left")
        assert outputs(project_copy) == expected
        assert not leftovers(project_copy.folder / "cache")


@pytest.mark.long
def test_two_concurrent_runs_give_the_outputs_of_one(project_copy):
    expected = outputs(project_copy)
    forget(project_copy)
    command = ("dvc", "repro", "--force", "--downstream", "source@left", f"sensitivity_sigma@{PROBLEM}")
    processes = [project_copy.start(*command) for _ in range(2)]
    texts = ["".join(process.communicate()) for process in processes]
    codes = [process.returncode for process in processes]
    assert 0 in codes, texts
    for code, text in zip(codes, texts, strict=True):
        if code:  # it reports that the other one is running
            assert "lock" in text.lower() or "busy" in text.lower() or "being used" in text, text
    project_copy.run("dvc", "repro")
    assert outputs(project_copy) == expected
    assert not leftovers(project_copy.folder / "cache")


@pytest.mark.long
@pytest.mark.parametrize("jump", [-10 * 365 * 86400, 10 * 365 * 86400], ids=["back", "ahead"])
def test_a_clock_that_jumps_changes_nothing(project_copy, jump):
    """Shift every file's time and the stages' clock in Python by ten years, back or ahead."""
    expected = {**outputs(project_copy), "cache": tree_digest(project_copy.folder / "cache")}
    for path in project_copy.folder.rglob("*"):
        if path.is_file() and ".dvc" not in path.parts and not path.is_symlink():
            time_shifted = path.stat().st_mtime + jump
            os.utime(path, (time_shifted, time_shifted))
    assert project_copy.repro() == set(), "a stage ran again because of a file's time"
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


def count_complete_objects(remote):
    """Assert that objects with their final name, an MD5, have that content; return their number."""
    digests = {p: p.parent.name + p.name.removesuffix(".dir") for p in objects(remote)}
    digests = {p: digest for p, digest in digests.items() if len(digest) == 32}
    assert all(hashlib.md5(p.read_bytes()).hexdigest() == digest for p, digest in digests.items())
    return len(digests)


def interrupt(project, command, folder, kills=6):
    """SIGKILL a transfer ``kills`` times, each time after some files have arrived."""
    rng, killed = random.Random(1), 0
    for _ in range(4 * kills + 4):
        transfer, target = project.start("dvc", *command), len(objects(folder)) + rng.randint(1, 20)
        while transfer.poll() is None and len(objects(folder)) < target:
            time.sleep(0.002)
        killed += kill(transfer)
        if killed == kills:
            return
        if transfer.returncode == 0:  # it was complete: start from nothing again
            shutil.rmtree(folder)
            folder.mkdir()
    pytest.fail(f"{command}: never interrupted")


@pytest.mark.long  # checks DVC itself; undisturbed transfers are in the tests of sharing
def test_push_and_pull_survive_many_interrupts(project_copy, tmp_path):
    remote, store = tmp_path / "remote", project_copy.folder / ".dvc/cache"
    remote.mkdir()
    project_copy.run("dvc", "remote", "add", "--default", "team", str(remote))
    shared = ("cache/embeddings", "cache/target")
    expected = [tree_digest(project_copy.folder / name) for name in shared]
    interrupt(project_copy, ("push",), remote)
    count_complete_objects(remote)
    project_copy.run("dvc", "push")
    assert count_complete_objects(remote) > 50
    for name in (".dvc/cache", *shared):
        shutil.rmtree(project_copy.folder / name)
    store.mkdir()
    interrupt(project_copy, ("pull", "--allow-missing"), store)
    project_copy.run("dvc", "pull", "--allow-missing")
    assert [tree_digest(project_copy.folder / name) for name in shared] == expected
    assert project_copy.repro() == set()
