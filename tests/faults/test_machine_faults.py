"""Full disk, read-only cache, damaged stores: one line, nothing half-written; then the same bytes."""

import contextlib
import io
import os
import resource
import shutil
import subprocess
import sys

import pytest

from faults.test_killed_stages import digest, leftovers
from pipeline.stage import main

pytestmark = pytest.mark.slow

PROBLEM = "left-right"
VIT = "cache/embeddings/right/vit.zarr"


def one_line(done):
    """Return the one line of a stage that failed as it should."""
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("referee: error: ")
    return line


def refused(project, stage):
    """Run a stage in this process, which must fail; return its one line."""
    with contextlib.chdir(project.folder), contextlib.redirect_stderr(io.StringIO()) as errors:
        assert main([stage, PROBLEM]) == 2
    (line,) = errors.getvalue().strip().splitlines()
    return line


@contextlib.contextmanager
def mounted(*command, at):
    """Mount something for a while; skip, saying so, where that is not allowed."""
    done = subprocess.run(["mount", *command, str(at)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount here ({done.stderr.strip()}): needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", str(at)], check=True)


@pytest.fixture(scope="module")
def project(run_project):
    return run_project


@pytest.mark.skipif(shutil.which("mount") is None, reason="no mount command")
def test_a_full_disk_is_one_line_and_room_mends_it(project):
    """cache/target on a file system of 64 kB, then of enough."""
    place = project.folder / "cache/target"
    expected = digest(place / f"{PROBLEM}.zarr")
    with mounted("-t", "tmpfs", "-o", "size=64k", "tmpfs", at=place):
        line = one_line(project.stage("adapt", PROBLEM, ok=False))
        assert "No space left on device" in line
        assert not list(place.iterdir()), "something half-written is left"
        subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
        project.stage("adapt", PROBLEM)
        assert digest(place / f"{PROBLEM}.zarr") == expected


def test_a_limit_on_file_sizes_is_one_line(project):
    before = digest(project.folder / f"cache/target/{PROBLEM}.zarr")
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.stages", "adapt", PROBLEM],
        cwd=project.folder,
        env=project.environment(PYTHONDONTWRITEBYTECODE="1"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "File too large" in one_line(done)
    assert digest(project.folder / f"cache/target/{PROBLEM}.zarr") == before
    assert not leftovers(project.folder / "cache")


def test_a_read_only_cache_is_one_line(project):
    place = project.folder / "cache"
    before = digest(place)
    if os.geteuid() == 0:
        with mounted("--bind", str(place), at=place):
            subprocess.run(["mount", "-o", "remount,ro,bind", str(place)], check=True)
            line = one_line(project.stage("adapt", PROBLEM, ok=False))
            # reading is all that scoring needs
            project.stage("evaluate", PROBLEM)
    else:
        (place / "target").chmod(0o500)
        line = one_line(project.stage("adapt", PROBLEM, ok=False))
        (place / "target").chmod(0o700)
    assert "Read-only file system" in line or "Permission denied" in line
    assert digest(place) == before


@pytest.mark.parametrize("damage", ["truncated", "flipped, as old as before"])
def test_a_damaged_shard_is_one_line_and_its_remedy_works(project, damage):
    shard = project.folder / VIT / "original/c/0/0"
    expected = digest(project.folder / VIT)
    whole, stat = shard.read_bytes(), shard.stat()
    shard.chmod(0o644)
    spoilt = whole[:-100] if damage == "truncated" else whole[:50] + bytes([whole[50] ^ 16]) + whole[51:]
    shard.write_bytes(spoilt)
    if "as old" in damage:  # as a disk does it: DVC, which looks at the time, sees no change
        os.utime(shard, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    line = refused(project, "adapt")
    remedy = line.partition("restore it with `")[2].partition("`")[0]
    assert VIT in remedy
    project.run("sh", "-c", remedy)
    assert digest(project.folder / VIT) == expected
