"""Run a real Slurm on this machine: munged, slurmctld and slurmd, with one node that has four pretended GPUs."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from dask_cluster import wait_until
from servers.loopback import free_ports

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scancel")
CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={slurmd_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
GresTypes=gpu
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=8000 Gres=gpu:4 State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def find_obstacle() -> str | None:
    """Return why Slurm cannot be started on this machine, or None if it can."""
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    os.environ["PATH"] += f"{os.pathsep}/usr/sbin"
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)} (Debian: slurm-wlm, munge)" if absent else None


needs_slurm = pytest.mark.skipif(find_obstacle() is not None, reason=str(find_obstacle()))


class RealSlurm:
    """A context manager that runs Slurm; commands started with ``environment`` use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> RealSlurm:
        for name in ("state", "spool"):
            (self.folder / name).mkdir(parents=True)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        port, slurmd_port = free_ports(2)
        host = socket.gethostname().partition(".")[0]
        text = CONF.format(port=port, slurmd_port=slurmd_port, host=host, folder=self.folder)
        (self.folder / "slurm.conf").write_text(text)
        for number in range(4):
            device = os.makedev(1, 3 + 2 * (number % 2))  # null and zero: any device will do
            os.mknod(self.folder / f"gpu{number}", 0o20600, device)
        (self.folder / "gres.conf").write_text(f"Name=gpu File={self.folder}/gpu[0-3]\n")
        files = [f"--{name}-file={self.folder}/munge.{name}" for name in ("pid", "log", "seed")]
        self._start("munged", "--foreground", "--force", f"--key-file={key}",
                    f"--socket={self.folder}/munge.sock", *files)  # fmt: skip
        wait_until((self.folder / "munge.sock").exists, "munged")
        self._start("slurmctld", "-D")
        self._start("slurmd", "-D")
        wait_until(lambda: "idle" in self.run("sinfo", "--noheader"), "Slurm")
        return self

    def _start(self, *command: str) -> None:
        environment = {**os.environ, **self.environment}
        with (self.folder / f"{command[0]}.out").open("wb") as log:
            self._daemons.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))

    def run(self, *command: str) -> str:
        """Run one of Slurm's commands."""
        environment = {**os.environ, **self.environment}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stdout

    def __exit__(self, *_: object) -> None:
        self.run("scancel", "--user", "root")
        time.sleep(1)
        for daemon in reversed(self._daemons):
            with suppress(ProcessLookupError):
                daemon.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(timeout=15)
            daemon.kill()
            daemon.wait()
