"""Full disk, read-only cache, damaged or foreign stores: one line, nothing half-written; then the same bytes."""

import contextlib
import io
import os
import resource
import shutil
import subprocess
import sys

import numpy as np
import pytest

from faults.test_killed_stages import digest, leftovers
from pipeline.stage import main
from pipeline.store.embedding_store import ViewRows, open_embeddings, write_embeddings

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
    aside = project.folder / "target_kept"
    place.rename(aside)
    place.mkdir()
    try:
        with mounted("-t", "tmpfs", "-o", "size=64k", "tmpfs", at=place):
            line = one_line(project.stage("adapt", PROBLEM, ok=False))
            assert "No space left on device" in line
            assert not list(place.iterdir()), "something half-written is left"
            subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
            project.stage("adapt", PROBLEM)
            assert digest(place / f"{PROBLEM}.zarr") == expected
    finally:
        place.rmdir()
        aside.rename(place)


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
    spoilt = (
        whole[:-100] if damage == "truncated" else whole[:50] + bytes([whole[50] ^ 16]) + whole[51:]
    )
    shard.write_bytes(spoilt)
    if "as old" in damage:  # as a disk does it: DVC, which looks at the time, sees no change
        os.utime(shard, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    line = refused(project, "adapt")
    remedy = line.partition("restore it with `")[2].partition("`")[0]
    assert VIT in remedy
    project.run("sh", "-c", remedy)
    assert digest(project.folder / VIT) == expected


def foreign(project, width=None, **changes):
    """Put a store in the place of the target's that another model, or other images, made."""
    store = open_embeddings(project.folder / VIT)
    rows = {view: store.read(view)[:, : width or store.width] for view in store.views}
    about = {k: v for k, v in store.provenance.items() if k not in ("schema", "views")} | changes
    shutil.rmtree(project.folder / VIT)
    write_embeddings(
        project.folder / VIT,
        {
            v: ViewRows(*x.shape, str(x.dtype), {}, [np.ascontiguousarray(x)])
            for v, x in rows.items()
        },
        about,
    )


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"rows_digest": "other"}, "rows_digest"),
        ({"weights": "other"}, "weights = 'other'"),
        ({"model": {"name": "other"}}, "model = "),
    ],
)
def test_a_store_of_other_images_or_another_model_is_refused_and_made_again(project, change, key):
    expected = digest(project.folder / VIT)
    foreign(project, **change)
    for stage in ("adapt", "evaluate", "compare"):
        line = refused(project, stage)
        assert "cache/" in line
        assert key in line
    assert project.repro(f"adapt@{PROBLEM}") <= {"embed@right-vit"}  # made again, and nothing else
    assert digest(project.folder / VIT) == expected


def test_a_store_of_another_width_is_refused_and_made_again(project):
    expected = digest(project.folder / VIT)
    foreign(project, width=8)
    for stage in ("adapt", "evaluate"):
        line = refused(project, stage)
        assert VIT in line
        assert "dvc repro" in line
    project.repro(f"adapt@{PROBLEM}")
    assert digest(project.folder / VIT) == expected


def test_a_store_of_another_schema_version_is_one_line(project):
    expected = digest(project.folder / VIT)
    file = project.folder / VIT / "zarr.json"
    file.chmod(0o644)
    file.write_text(file.read_text().replace("referee-embeddings/2", "referee-embeddings/1"))
    line = refused(project, "adapt")
    assert VIT in line
    assert "referee-embeddings/1" in line
    project.repro(f"adapt@{PROBLEM}")
    assert digest(project.folder / VIT) == expected
