"""Run the commands of docs/scale.md that start or use a cluster on a small project.

Replaced are the scheduler's address, the numbers of Slurm jobs, cores and gigabytes, and the GPU driver: a script lists
two GPUs, and `embed` then uses the CPU, because torch finds none.
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


def commands_with(word):
    """Return the commands of the block that contains ``word``; check its pip lines instead of returning them."""
    (block,) = [b for b in read_page(ROOT / PAGE).blocks if b.is_command and word in b.text]
    pip_lines = [line for line in block.lines if line.startswith("pip install")]
    for line in pip_lines:
        assert is_installed(line.split()[-1].strip("'")), line
    return [line for line in block.lines if line not in pip_lines]


def is_installed(requirement):
    """Return whether a package is installed, or an extra of this package (``.[extra]``) exists."""
    if extra := re.fullmatch(r"\.\[(\w+)\]", requirement):
        return extra[1] in metadata.metadata("referee-pipeline").get_all("Provides-Extra")
    return bool(metadata.version(requirement))


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project").mkdir()
    project = SmallProject(tmp_path / "project").create(dvc=True)
    (project.folder / "cluster").symlink_to(ROOT / "cluster")
    return project


def assert_was_run(project):
    assert (project.folder / STORE).is_dir()
    assert (project.folder / "results/toy/report.html").is_file()
    assert project.repro() == set(), "stages run again without the cluster"


def test_scheduler_address_in_the_environment(project, tmp_path):
    export, command = commands_with("export DASK_SCHEDULER_ADDRESS")
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
    all_gpus, some_gpus = commands_with("on_this_machine.py")
    project.run("bash", "-ec", all_gpus, PATH=path)
    logs = project.folder / ".referee/cluster"
    assert {file.name for file in logs.glob("worker-*")} == {"worker-0.log", "worker-1.log"}
    assert_was_run(project)
    project.change_params(rff={"sigma": 1e-2})
    project.run("bash", "-ec", some_gpus, PATH=path)
    assert len(list(logs.glob("worker-*"))) == 3
    assert_was_run(project)


@needs_slurm
def test_slurm(project, tmp_path):
    submit, show = commands_with("on_slurm.py")
    replacements = {"--jobs 4": "--jobs 2", "--cores 8": "--cores 1", "--memory 32GB": "--memory 2GB"}
    for documented, small in replacements.items():
        assert documented in submit
        submit = submit.replace(documented, small)
    with RealSlurm(tmp_path / "slurm") as slurm:
        project.run("bash", "-ec", submit, **slurm.environment)
        assert_was_run(project)
        assert "#SBATCH -p gpu" in project.run("bash", "-ec", show, **slurm.environment).stdout
