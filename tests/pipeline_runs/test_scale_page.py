"""The commands of docs/scale.md that start a cluster or use one, run as they stand there, on a small project.

What stands for something else here: the scheduler's address; a driver that lists two GPUs (torch then finds none and
uses the processor, which is what an `embed` does whose device is auto); as many cores and gigabytes as Slurm has here.
"""

import os
import re
from importlib import metadata

import pytest

from dask_cluster import RealCluster
from documented_commands import read_page
from real_slurm import RealSlurm, needs_slurm
from small_project import ROOT, SmallProject

pytestmark = pytest.mark.long

PAGE = "docs/scale.md"
STORE = "cache/embeddings/left/vit.zarr"


def lines(word):
    """Return the lines of the page's block that has ``word``, without those that install."""
    (block,) = [b for b in read_page(ROOT / PAGE).blocks if b.is_command and word in b.text]
    installs = [line for line in block.lines if line.startswith("pip install")]
    for line in installs:
        assert is_installed(line.split()[-1].strip("'")), line
    return [line for line in block.lines if line not in installs]


def is_installed(what):
    """Is a requirement met here? ``.[extra]`` stands for those of this package."""
    if extra := re.fullmatch(r"\.\[(\w+)\]", what):
        return extra[1] in metadata.metadata("referee-pipeline").get_all("Provides-Extra")
    return bool(metadata.version(what))


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project").mkdir()
    project = SmallProject(tmp_path / "project").create(dvc=True)
    (project.folder / "cluster").symlink_to(ROOT / "cluster")
    return project


def assert_was_run(project):
    assert (project.folder / STORE).is_dir()
    assert (project.folder / "results/toy/report.html").is_file()
    assert project.repro() == set(), "without the cluster something is made again"


def test_one_variable(project, tmp_path):
    export, command = lines("export DASK_SCHEDULER_ADDRESS")
    with RealCluster(tmp_path / "cluster") as cluster:
        cluster.add_worker()
        cluster.add_worker()
        project.run("bash", "-ec", f"{export.split('=')[0]}={cluster.address}\n{command}")
    assert_was_run(project)


def test_several_gpus_on_one_machine(project, tmp_path):
    driver = tmp_path / "bin" / "nvidia-smi"
    driver.parent.mkdir()
    driver.write_text("#!/bin/sh\necho 0\necho 1\n")
    driver.chmod(0o755)
    path = f"{driver.parent}{os.pathsep}{project.environment()['PATH']}"
    everything, some = lines("on_this_machine.py")
    project.run("bash", "-ec", everything, PATH=path)
    logs = project.folder / ".referee/cluster"
    assert {file.name for file in logs.glob("worker-*")} == {"worker-0.log", "worker-1.log"}
    assert_was_run(project)
    project.change_params(rff={"sigma": 1e-2})
    project.run("bash", "-ec", some, PATH=path)
    assert len(list(logs.glob("worker-*"))) == 3
    assert_was_run(project)


@needs_slurm
def test_slurm(project, tmp_path):
    submit, show = lines("on_slurm.py")
    here = {"--jobs 4": "--jobs 2", "--cores 8": "--cores 1", "--memory 32GB": "--memory 2GB"}
    for there, small in here.items():
        assert there in submit
        submit = submit.replace(there, small)
    with RealSlurm(tmp_path / "slurm") as slurm:
        project.run("bash", "-ec", submit, **slurm.environment)
        assert_was_run(project)
        assert "#SBATCH -p gpu" in project.run("bash", "-ec", show, **slurm.environment).stdout
