"""Run a command on a Dask cluster of this machine: one worker per GPU, each with its share of the cores.

    python cluster/on_this_machine.py -- dvc repro                      # as many workers as nvidia-smi lists GPUs
    python cluster/on_this_machine.py --gpus 0,1,5 -- dvc repro
    python cluster/on_this_machine.py --processes 4 -- dvc repro        # no GPU: four workers of one thread

The command sees DASK_SCHEDULER_ADDRESS; scheduler and workers end with it.
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
LISTENS_SECONDS = 60


def gpus_here() -> list[str]:
    """Return the numbers of the GPUs that the driver lists."""
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    listed = subprocess.run(query, capture_output=True, text=True, check=True)  # noqa: S603
    return listed.stdout.split()


def shares(cores: Sequence[int], workers: int) -> list[list[int]]:
    """Deal the cores out: decoding for one GPU does not slow another's."""
    return [list(cores[w::workers]) or list(cores) for w in range(workers)]


@contextlib.contextmanager
def started(command: Sequence[str], log: Path, **environment: str) -> Iterator[subprocess.Popen]:
    """Run a process beside us; end it with us."""
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
    """Return the address that the scheduler has written down."""
    end = time.monotonic() + LISTENS_SECONDS
    while time.monotonic() < end and scheduler.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            return str(json.loads(file.read_text())["address"])
        time.sleep(0.1)
    raise SystemExit(f"on_this_machine: the scheduler does not start: {log.read_text()}")


def run(command: Sequence[str], gpus: Sequence[str], processes: int, logs: Path) -> int:
    """Start scheduler and workers, run the command, end them; return its status."""
    workers = list(gpus) or [""] * processes
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    with contextlib.ExitStack() as stack:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "scheduler.json"
        common = ["--no-dashboard", "--scheduler-file", str(file)]
        starts = [DASK, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-show", *common]
        log = logs / "scheduler.log"
        scheduler = stack.enter_context(started(starts, log))
        address = wait_for_address(file, scheduler, log)
        for number, (gpu, share) in enumerate(zip(workers, shares(cores, len(workers)), strict=True)):
            starts = [DASK, "worker", "--nthreads", "1", "--name", f"gpu{gpu}" if gpu else f"w{number}"]
            starts += ["--memory-limit", "0", "--local-directory", str(file.parent), *common]
            pinned = ["taskset", "--cpu-list", ",".join(map(str, share))]
            prefix = pinned if gpu and share and shutil.which("taskset") else []
            environment = {"CUDA_VISIBLE_DEVICES": gpu, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if gpu else {}
            log = logs / f"worker-{number}.log"
            stack.enter_context(started([*prefix, *starts], log, **environment))
        environment = {**os.environ, "DASK_SCHEDULER_ADDRESS": address}
        return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603


def main(argv: list[str] | None = None) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", help="their numbers, with commas (default: all)")
    parser.add_argument("--processes", type=int, default=0, help="so many workers without a GPU")
    parser.add_argument("--logs", type=Path, default=Path(".referee/cluster"))
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="after --")
    args = parser.parse_args(argv)
    gpus = [] if args.processes else (args.gpus.split(",") if args.gpus else gpus_here())
    if not gpus and args.processes < 1:
        parser.error("no GPU here; say --gpus 0,1 or --processes N")
    args.logs.mkdir(parents=True, exist_ok=True)
    return run(args.command, gpus, args.processes, args.logs)


if __name__ == "__main__":
    sys.exit(main())
