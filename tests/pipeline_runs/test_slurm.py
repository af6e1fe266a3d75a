"""Jobs on a real Slurm, one of them cancelled on the way; the bytes are those of one process."""

import os
import shutil
import subprocess
import sys

import pytest

from dask_cluster import wait_until
from real_slurm import RealSlurm, why_not
from small_project import ROOT, SmallProject, tree_digest

pytestmark = [pytest.mark.long, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

STORE = "cache/embeddings/left/vit.zarr"


def test_embed_as_slurm_jobs_of_which_one_is_cancelled(tmp_path):
    project = SmallProject(tmp_path / "project")
    project.folder.mkdir()
    project.create(per_class=250)
    project.run_here(("manifest", "left"), ("embed", "left", "vit"))
    here = tree_digest(project.folder / STORE)
    shutil.rmtree(project.folder / STORE)
    shutil.rmtree(project.folder / ".referee")
    stage = [sys.executable, "-m", "pipeline.stages", "embed", "left", "vit"]
    options = ["--jobs", "2", "--partition", "gpu", "--cores", "1", "--memory", "2GB"]
    with RealSlurm(tmp_path / "slurm") as slurm:
        run = subprocess.Popen(
            [sys.executable, str(ROOT / "cluster" / "on_slurm.py"), *options, "--", *stage],
            cwd=project.folder,
            env={**os.environ, **slurm.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: " R " in slurm.run("squeue", "--noheader"), "a running job")
        slurm.run("scancel", "1")
        output, errors = run.communicate(timeout=300)
        assert run.returncode == 0, errors
        assert "1000 embedded now" in output
        wait_until(lambda: not slurm.run("squeue", "--noheader").strip(), "the jobs to be gone")
    assert tree_digest(project.folder / STORE) == here
    assert list((project.folder / ".referee" / "cluster").glob("dask-worker-*.err"))
