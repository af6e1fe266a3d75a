"""A real Dask cluster for tests: `dask scheduler` and `dask worker` as processes, each worker in a network of its own.

As root on Linux every worker gets a network namespace, joined to the scheduler's by a bridge: other addresses, no
shared loopback, as on several machines. Elsewhere all share the loopback.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

DASK = str(Path(sys.executable).parent / "dask")
_numbers = itertools.count(1)


def wait_until(condition: Any, what: str, seconds: float = 120.0) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.01)


def _ip(*command: str) -> None:
    subprocess.run(["ip", *command], check=True, capture_output=True, timeout=20)


class Networks:
    """Network namespaces on one bridge; without the right to make them, the loopback."""

    def __init__(self) -> None:
        self.tag = f"rf{os.getpid() % 100_000:x}{next(_numbers)}"
        self.subnet = f"10.{64 + os.getpid() % 128}.{next(_numbers) % 250}"
        self.made: list[str] = []
        self.apart = os.geteuid() == 0 and shutil.which("ip") is not None and self._make_bridge()

    def _make_bridge(self) -> bool:
        try:
            _ip("link", "add", f"b{self.tag}", "type", "bridge")
            _ip("addr", "add", f"{self.subnet}.1/24", "dev", f"b{self.tag}")
            _ip("link", "set", f"b{self.tag}", "up")
            self.prefix(2)  # can namespaces be made at all?
        except (subprocess.SubprocessError, OSError):
            self.close()
            return False
        return True

    @property
    def host(self) -> str:
        """The address of this process's side."""
        return f"{self.subnet}.1" if self.apart else "127.0.0.1"

    def prefix(self, number: int) -> list[str]:
        """Make a namespace; return what to put before a command that runs in it."""
        name, inner, outer = f"{self.tag}n{number}", f"i{self.tag}{number}", f"o{self.tag}{number}"
        if name not in self.made:
            _ip("netns", "add", name)
            self.made.append(name)
            _ip("link", "add", outer, "type", "veth", "peer", "name", inner)
            _ip("link", "set", outer, "master", f"b{self.tag}", "up")
            _ip("link", "set", inner, "netns", name)
            _ip("-n", name, "addr", "add", f"{self.subnet}.{number}/24", "dev", inner)
            _ip("-n", name, "link", "set", inner, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        return ["ip", "netns", "exec", name]

    def cut(self, number: int) -> None:
        """Pull the plug of a namespace: packets vanish, nobody is told."""
        _ip("link", "set", f"o{self.tag}{number}", "down")

    def close(self) -> None:
        """Remove all of it."""
        for name in self.made:
            with contextlib.suppress(subprocess.SubprocessError, OSError):
                _ip("netns", "del", name)
        with contextlib.suppress(subprocess.SubprocessError, OSError):
            _ip("link", "del", f"b{self.tag}")


class Worker:
    """A worker process."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self.log = process, log

    def is_connected(self) -> bool:
        """Say whether the scheduler has it; it must be alive."""
        text = self.log.read_text(errors="replace")
        assert self.process.poll() is None, text
        return "Starting established connection" in text

    def kill(self) -> None:
        """SIGKILL, as the kernel does when memory runs out; it must still have been alive."""
        assert self.process.poll() is None, self.log.read_text()
        self.process.kill()
        self.process.wait()

    def slow_down(self) -> None:
        """Stop and continue it again and again, until it ends: it gets a small part of the time."""

        def throttle() -> None:
            while self.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    self.process.send_signal(signal.SIGSTOP)
                    time.sleep(0.2)
                    self.process.send_signal(signal.SIGCONT)
                    time.sleep(0.02)

        threading.Thread(target=throttle, daemon=True).start()


class RealCluster:
    """A scheduler and its workers; a context manager that ends them all."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.networks = Networks()
        self.workers: list[Worker] = []
        self._file = folder / "scheduler.json"
        folder.mkdir(parents=True, exist_ok=True)
        starts = (DASK, "scheduler", "--no-show", "--host", self.networks.host, "--port", "0")
        self.scheduler = self._start("scheduler", *starts, **environment)
        wait_until(self._known, "the scheduler")

    def _known(self) -> bool:
        assert self.scheduler.poll() is None, (self.folder / "scheduler.log").read_text()
        with contextlib.suppress(OSError, ValueError, KeyError):
            self.address = json.loads(self._file.read_text())["address"]
            return True
        return False

    def _start(self, name: str, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        environ = {k: v for k, v in os.environ.items() if k != "DASK_SCHEDULER_ADDRESS"}
        environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **environment}
        command = (*command, "--no-dashboard", "--scheduler-file", str(self._file))
        with (self.folder / f"{name}.log").open("wb") as log:
            # not in the project's folder: paths must hold wherever a worker was started
            return subprocess.Popen(command, cwd=self.folder, env=environ, stdout=log, stderr=log)

    def add_worker(self, *, before: tuple[str, ...] = (), **environment: str) -> Worker:
        """Start a worker and wait until the scheduler has it; ``before``: a command that starts it."""
        number = len(self.workers) + 2
        name = f"w{number}"
        prefix = self.networks.prefix(number) if self.networks.apart else []
        options = ("--nthreads", "1", "--no-nanny", "--name", name, "--memory-limit", "0")
        options += ("--local-directory", str(self.folder / name))
        process = self._start(name, *prefix, *before, DASK, "worker", *options, **environment)
        worker = Worker(process, self.folder / f"{name}.log")
        self.workers.append(worker)
        wait_until(worker.is_connected, name)
        return worker

    def __enter__(self) -> RealCluster:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*(worker.process for worker in self.workers), self.scheduler):
            process.kill()
            process.wait()
        self.networks.close()
