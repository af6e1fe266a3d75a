"""Full disk, read-only cache, damaged stores: one line, nothing half-written; then the same bytes."""

import contextlib
import os
import shutil
import subprocess

import pytest

from faults.test_killed_stages import leftovers
from small_project import PROBLEM, STAGE, refusal, tree_digest

pytestmark = pytest.mark.slow

VIT = "cache/embeddings/right/vit.zarr"


@pytest.fixture(scope="module")
def project(run_project):
    return run_project


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


@pytest.mark.skipif(shutil.which("mount") is None, reason="no mount command")
def test_a_full_disk_is_one_line_and_room_mends_it(project):
    """cache/target on a file system of 64 kB, then of enough."""
    place = project.folder / "cache/target"
    expected = tree_digest(place / f"{PROBLEM}.zarr")
    with mounted("-t", "tmpfs", "-o", "size=64k", "tmpfs", at=place):
        assert "No space left on device" in project.refusal("adapt", PROBLEM)
        assert not list(place.iterdir()), "something half-written is left"
        subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
        project.stage("adapt", PROBLEM)
        assert tree_digest(place / f"{PROBLEM}.zarr") == expected


def test_a_limit_on_file_sizes_is_one_line(project):
    before = tree_digest(project.folder / f"cache/target/{PROBLEM}.zarr")
    limited = ("bash", "-c", 'ulimit -f 1 && exec "$@"', "bash", *STAGE, "adapt", PROBLEM)
    assert "File too large" in refusal(project.run(*limited, ok=False, PYTHONDONTWRITEBYTECODE="1"))
    assert tree_digest(project.folder / f"cache/target/{PROBLEM}.zarr") == before
    assert not leftovers(project.folder / "cache")


def test_a_read_only_cache_is_one_line(project):
    place = project.folder / "cache"
    before = tree_digest(place)
    if os.geteuid() == 0:
        with mounted("--bind", str(place), at=place):
            subprocess.run(["mount", "-o", "remount,ro,bind", str(place)], check=True)
            line = project.refusal("adapt", PROBLEM)
            # reading is all that scoring needs
            project.stage("evaluate", PROBLEM)
    else:
        (place / "target").chmod(0o500)
        line = project.refusal("adapt", PROBLEM)
        (place / "target").chmod(0o700)
    assert "Read-only file system" in line or "Permission denied" in line
    assert tree_digest(place) == before


@pytest.mark.parametrize("damage", ["truncated", "flipped, as old as before"])
def test_a_damaged_shard_is_one_line_and_its_remedy_works(project, damage):
    shard = project.folder / VIT / "original/c/0/0"
    expected = tree_digest(project.folder / VIT)
    whole, stat = shard.read_bytes(), shard.stat()
    shard.chmod(0o644)
    spoilt = whole[:-100] if damage == "truncated" else whole[:50] + bytes([whole[50] ^ 16]) + whole[51:]
    shard.write_bytes(spoilt)
    if "as old" in damage:  # as a disk does it: DVC, which looks at the time, sees no change
        os.utime(shard, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    line = project.refusal("adapt", PROBLEM)
    remedy = line.partition("restore it with `")[2].partition("`")[0]
    assert VIT in remedy
    project.run("sh", "-c", remedy)
    assert tree_digest(project.folder / VIT) == expected
