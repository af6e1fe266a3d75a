"""Full disk, read-only cache, damaged stores: a one-line error, nothing half-written, and then the same bytes."""

import contextlib
import os
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from faults.test_killed_stages import leftovers
from pipeline.stage import main
from small_project import PROBLEM, STAGE, refusal, tree_digest

pytestmark = pytest.mark.slow

ADAPT = ("adapt", PROBLEM)
MODEL = Path("cache/target", f"{PROBLEM}.zarr")
VIT = Path("cache/embeddings/right/vit.zarr")


@pytest.fixture
def project(run_project, monkeypatch):
    """Change to the folder of the finished project."""
    monkeypatch.chdir(run_project.folder)
    return run_project


@pytest.fixture
def refused(project, refused):
    """Return a function that runs `adapt`, which must fail, and returns its error message."""
    return partial(refused, main, *ADAPT)


@contextlib.contextmanager
def mounted(*command, folder):
    """Mount something on a folder during the context; skip the test if that is not allowed."""
    result = subprocess.run(["mount", *command, str(folder)], capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.skip(f"cannot mount here ({result.stderr.strip()}): needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="no mount command")
def test_a_full_disk_is_one_line_and_more_space_is_the_remedy(refused):
    """cache/target is on a file system of 64 kB, then on a large enough one."""
    expected = tree_digest(MODEL)
    with mounted("-t", "tmpfs", "-o", "size=64k", "tmpfs", folder=MODEL.parent):
        assert "No space left on device" in refused()
        assert not list(MODEL.parent.iterdir()), "something half-written is left"
        subprocess.run(["mount", "-o", "remount,size=64m", MODEL.parent.absolute()], check=True)
        assert main(ADAPT) == 0
        assert tree_digest(MODEL) == expected


def test_a_limit_on_file_sizes_is_one_line(project):
    before = tree_digest(MODEL)
    limited = ("bash", "-c", 'ulimit -f 1 && exec "$@"', "bash", *STAGE, *ADAPT)
    assert "File too large" in refusal(project.run(*limited, ok=False, PYTHONDONTWRITEBYTECODE="1"))
    assert tree_digest(MODEL) == before
    assert not leftovers(project.folder / "cache")


def test_a_read_only_cache_is_one_line(refused):
    cache = Path("cache").absolute()
    before = tree_digest(cache)
    if os.geteuid() == 0:
        with mounted("--bind", str(cache), folder=cache):
            subprocess.run(["mount", "-o", "remount,ro,bind", cache], check=True)
            line = refused()
            assert main(["evaluate", PROBLEM]) == 0  # scoring only reads
    else:
        (cache / "target").chmod(0o500)
        line = refused()
        (cache / "target").chmod(0o700)
    assert "Read-only file system" in line or "Permission denied" in line
    assert tree_digest(cache) == before


@pytest.mark.parametrize("damage", ["truncated", "flipped, with the old time"])
def test_a_damaged_shard_is_one_line_and_its_remedy_works(project, refused, damage):
    shard = VIT / "original/c/0/0"
    expected = tree_digest(VIT)
    whole, stat = shard.read_bytes(), shard.stat()
    shard.chmod(0o644)
    damaged = whole[:-100] if damage == "truncated" else whole[:50] + bytes([whole[50] ^ 16]) + whole[51:]
    shard.write_bytes(damaged)
    if "old time" in damage:  # like a failing disk; DVC compares the time and sees no change
        os.utime(shard, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    remedy = refused().partition("restore it with `")[2].partition("`")[0]
    assert str(VIT) in remedy
    project.run("sh", "-c", remedy)
    assert tree_digest(VIT) == expected
