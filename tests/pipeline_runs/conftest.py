"""One small project that was run by `dvc repro` and committed; each test file that asks for it gets its own copy.

What docs/how-to/sweeps.md asks for first: `dvc repro && git add … && git commit`.
"""

import fcntl
import os
import shutil

import pytest

from small_project import SmallProject


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Run the project once, however many processes pytest has; return its folder, to be copied only."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    with (base / "finished.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base / "finished").exists():
            run_and_commit(base / "unfinished")
            (base / "unfinished").rename(base / "finished")
    return base / "finished"


def run_and_commit(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    made = SmallProject(folder).create(dvc=True)
    made.run("git", "config", "user.email", "owner@example.invalid")
    made.run("git", "config", "user.name", "Owner")
    made.repro("sensitivity@left-right")  # asks for all that it reads and for nothing else
    made.repro()
    made.run("git", "add", ".")
    made.run("git", "commit", "--quiet", "-m", "features of our images")


@pytest.fixture(scope="module")
def run_project(finished, tmp_path_factory):
    """Return a copy of the project that was run and committed."""
    folder = tmp_path_factory.mktemp("copy") / "project"
    shutil.copytree(finished, folder, symlinks=True)
    return SmallProject(folder)
