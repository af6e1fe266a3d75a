"""Start a real Dask cluster for tests: `dask scheduler` and `dask worker` processes, if possible in separate networks.

As root on Linux every worker gets a network namespace, connected to the scheduler's by a bridge. Workers then have
different addresses and no shared loopback, as on several machines. Otherwise all share the loopback.
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


def wait_until(condition: Any, description: str, seconds: float = 120.0) -> None:
    """Wait until a condition holds; fail after a timeout."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {description}"
        time.sleep(0.01)


def _ip(*command: str) -> None:
    subprocess.run(["ip", *command], check=True, capture_output=True, timeout=20)


class Networks:
    """Network namespaces on one bridge, or the loopback without the right to create namespaces."""

    def __init__(self) -> None:
        self.tag = f"rf{os.getpid() % 100_000:x}{next(_numbers)}"
        self.subnet = f"10.{64 + os.getpid() % 128}.{next(_numbers) % 250}"
        self.namespaces: list[str] = []
        self.isolated = os.geteuid() == 0 and shutil.which("ip") is not None and self._make_bridge()

    def _make_bridge(self) -> bool:
        try:
            _ip("link", "add", f"b{self.tag}", "type", "bridge")
            _ip("addr", "add", f"{self.subnet}.1/24", "dev", f"b{self.tag}")
            _ip("link", "set", f"b{self.tag}", "up")
            self.prefix(2)  # check that namespaces can be created
        except (subprocess.SubprocessError, OSError):
            self.close()
            return False
        return True

    @property
    def host(self) -> str:
        """The address of this process."""
        return f"{self.subnet}.1" if self.isolated else "127.0.0.1"

    def prefix(self, number: int) -> list[str]:
        """Create a namespace if needed; return the prefix of a command that runs in it."""
        name, inner, outer = f"{self.tag}n{number}", f"i{self.tag}{number}", f"o{self.tag}{number}"
        if name not in self.namespaces:
            _ip("netns", "add", name)
            self.namespaces.append(name)
            _ip("link", "add", outer, "type", "veth", "peer", "name", inner)
            _ip("link", "set", outer, "master", f"b{self.tag}", "up")
            _ip("link", "set", inner, "netns", name)
            _ip("-n", name, "addr", "add", f"{self.subnet}.{number}/24", "dev", inner)
            _ip("-n", name, "link", "set", inner, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        return ["ip", "netns", "exec", name]

    def cut(self, number: int) -> None:
        """Disconnect a namespace: packets are lost without any error."""
        _ip("link", "set", f"o{self.tag}{number}", "down")

    def close(self) -> None:
        """Remove the namespaces and the bridge."""
        for name in self.namespaces:
            with contextlib.suppress(subprocess.SubprocessError, OSError):
                _ip("netns", "del", name)
        with contextlib.suppress(subprocess.SubprocessError, OSError):
            _ip("link", "del", f"b{self.tag}")


class Worker:
    """A worker process."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self.log = process, log

    def is_connected(self) -> bool:
        """Return whether the worker is registered at the scheduler; fail if it has ended."""
        text = self.log.read_text(errors="replace")
        assert self.process.poll() is None, text
        return "Starting established connection" in text

    def kill(self) -> None:
        """Send SIGKILL, like the kernel when memory runs out; fail if the worker has already ended."""
        assert self.process.poll() is None, self.log.read_text()
        self.process.kill()
        self.process.wait()

    def slow_down(self) -> None:
        """Pause the process repeatedly, so that it gets only a small share of the time."""

        def throttle() -> None:
            while self.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    self.process.send_signal(signal.SIGSTOP)
                    time.sleep(0.2)
                    self.process.send_signal(signal.SIGCONT)
                    time.sleep(0.02)

        threading.Thread(target=throttle, daemon=True).start()


class RealCluster:
    """Scheduler and workers; a context manager that kills them at the end."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.networks = Networks()
        self.workers: list[Worker] = []
        self._file = folder / "scheduler.json"
        folder.mkdir(parents=True, exist_ok=True)
        command = (DASK, "scheduler", "--no-show", "--host", self.networks.host, "--port", "0")
        self.scheduler = self._start("scheduler", *command, **environment)
        wait_until(self._has_address, "the scheduler")

    def _has_address(self) -> bool:
        assert self.scheduler.poll() is None, (self.folder / "scheduler.log").read_text()
        with contextlib.suppress(OSError, ValueError, KeyError):
            self.address = json.loads(self._file.read_text())["address"]
            return True
        return False

    def _start(self, name: str, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        environ = {name: value for name, value in os.environ.items() if name != "DASK_SCHEDULER_ADDRESS"}
        environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **environment}
        command = (*command, "--no-dashboard", "--scheduler-file", str(self._file))
        with (self.folder / f"{name}.log").open("wb") as log:
            # not in the project's folder: paths must be valid whatever a worker's folder
            return subprocess.Popen(command, cwd=self.folder, env=environ, stdout=log, stderr=log)

    def add_worker(self, *, before: tuple[str, ...] = (), **environment: str) -> Worker:
        """Start a worker and wait until it is registered; ``before`` is a command that runs the worker's command."""
        number = len(self.workers) + 2
        name = f"w{number}"
        prefix = self.networks.prefix(number) if self.networks.isolated else []
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
