"""Run a command on a Dask cluster of this machine, with one worker per GPU and the cores divided among them.

    python cluster/on_this_machine.py -- dvc repro                      # one worker per GPU listed by nvidia-smi
    python cluster/on_this_machine.py --gpus 0,1,5 -- dvc repro
    python cluster/on_this_machine.py --processes 4 -- dvc repro        # no GPU: four workers of one thread

The command runs with DASK_SCHEDULER_ADDRESS set; scheduler and workers end with it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

DASK = str(Path(sys.executable).with_name("dask"))
START_SECONDS = 60  # timeout for the start of the scheduler


def local_gpus() -> list[str]:
    """Return the numbers of the GPUs that the driver lists."""
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()  # noqa: S603


def core_shares(cores: Sequence[int], workers: int) -> list[list[int]]:
    """Divide the cores among the workers, so that decoding for one GPU does not slow down another."""
    return [list(cores[w::workers]) or list(cores) for w in range(workers)]


@contextlib.contextmanager
def running_process(command: Sequence[str], log: Path, **environment: str) -> Iterator[subprocess.Popen]:
    """Start a process and stop it at the end of the ``with`` block."""
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603
            command, stdout=out, stderr=out, env={**os.environ, **environment}
        )
        try:
            yield process
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            process.kill()


def wait_for_address(file: Path, scheduler: subprocess.Popen, log: Path) -> str:
    """Return the address that the scheduler writes to its file."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and scheduler.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            return str(json.loads(file.read_text())["address"])
        time.sleep(0.1)
    raise SystemExit(f"on_this_machine: the scheduler did not start: {log.read_text()}")


def run(command: Sequence[str], gpus: Sequence[str], processes: int, logs: Path) -> int:
    """Start scheduler and workers, run the command, stop them; return the exit status of the command."""
    workers = list(gpus) or [""] * processes
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    with contextlib.ExitStack() as stack:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "scheduler.json"
        common = ["--no-dashboard", "--scheduler-file", str(file)]
        log = logs / "scheduler.log"
        start = [DASK, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-show", *common]
        scheduler = stack.enter_context(running_process(start, log))
        address = wait_for_address(file, scheduler, log)
        for number, (gpu, share) in enumerate(zip(workers, core_shares(cores, len(workers)), strict=True)):
            start = [DASK, "worker", "--nthreads", "1", "--name", f"gpu{gpu}" if gpu else f"w{number}"]
            start += ["--memory-limit", "0", "--local-directory", str(file.parent), *common]
            taskset = ["taskset", "--cpu-list", ",".join(map(str, share))]
            prefix = taskset if gpu and share and shutil.which("taskset") else []
            environment = {"CUDA_VISIBLE_DEVICES": gpu, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if gpu else {}
            log = logs / f"worker-{number}.log"
            stack.enter_context(running_process([*prefix, *start], log, **environment))
        environment = {**os.environ, "DASK_SCHEDULER_ADDRESS": address}
        return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603


def main(argv: list[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", help="comma-separated GPU numbers (default: all)")
    parser.add_argument("--processes", type=int, default=0, help="number of workers without a GPU")
    parser.add_argument("--logs", type=Path, default=Path(".referee/cluster"), help="folder of the log files")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="command to run, after --")
    args = parser.parse_args(argv)
    gpus = [] if args.processes else (args.gpus.split(",") if args.gpus else local_gpus())
    if not gpus and args.processes < 1:
        parser.error("no GPU here; give --gpus 0,1 or --processes N")
    args.logs.mkdir(parents=True, exist_ok=True)
    return run(args.command, gpus, args.processes, args.logs)


if __name__ == "__main__":
    sys.exit(main())
