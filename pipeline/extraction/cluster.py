"""Run work on a Dask cluster: connect, check the workers, submit tasks, collect results.

The environment variable DASK_SCHEDULER_ADDRESS selects the cluster; Dask is not imported unless it is set. Any failure
of the cluster is a one-line `ClusterError`, after which the same command can be run again, with or without a cluster.

A worker must have the same software as this process, and the same files under the same paths. Every worker is checked
at the start, and again by its first task of a run, because workers may join late. A worker determines its software only
once: its files may change during its long life, but the modules that it has loaded do not.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import os
import platform
import secrets
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.errors import ClusterError, RefereeError, one_line

if TYPE_CHECKING:
    from distributed import Client, Future

Item = TypeVar("Item")
Result = TypeVar("Result")

ADDRESS = "DASK_SCHEDULER_ADDRESS"
HOW_TO_CONTINUE = f"run the same command again to continue, or unset {ADDRESS} to continue on this machine"
CONNECT_SECONDS = 10
SILENCE_SECONDS = 30  # timeout for an answer of the scheduler
COUNT_SECONDS = 1.0  # interval between counts of the workers
WARN_SECONDS = 60.0  # interval between warnings that there is no worker
FILE_SECONDS = 5.0  # maximum delay of a network file system in showing a new file
TASKS_PER_THREAD = 2  # one running, one waiting at the worker
LIBRARIES = (
    *("numpy", "scipy", "torch", "timm", "open_clip_torch", "pillow", "pillow-heif", "pywavelets", "zarr"),
    *("dask", "distributed", "cloudpickle"),
)
PACKAGE = Path(__file__).parents[1]
CODE = "this package's code"
_passed: set[str] = set()  # runs whose requirements this process meets


@contextmanager
def cluster_from_environment(scratch: Path, paths: Sequence[Path] = ()) -> Iterator[Cluster | None]:
    """Connect to the cluster that the environment names, or yield None if it names none; see `connected`."""
    address = os.environ.get(ADDRESS, "").strip()
    with connected(address, scratch, paths) if address else nullcontext() as cluster:
        yield cluster


@contextmanager
def connected(address: str, scratch: Path, paths: Sequence[Path] = ()) -> Iterator[Cluster]:
    """Connect to a scheduler and check that its workers see ``paths`` and the project.

    ``scratch`` is a folder two levels below the project's, for a file by which workers prove that they see it.
    """
    client = _connect(address)
    content = secrets.token_hex(16)
    token = (scratch / f"cluster-{content[:8]}").absolute()
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text(content, encoding="utf-8")
    try:
        requirements = Requirements(token, content, tuple(path.absolute() for path in paths), software())
        cluster = Cluster(client, address, requirements)
        if not cluster.check_workers():
            warn(f"cluster {address}: no worker yet; waiting for one")
        yield cluster
    finally:
        token.unlink(missing_ok=True)
        client.close(timeout=2)


def _connect(address: str) -> Client:
    try:
        import dask
        from distributed import Client
        from distributed.versions import VersionMismatchWarning
    except ModuleNotFoundError as error:
        raise ClusterError(
            f"{ADDRESS} is set, but {error.name} is not installed; "
            f"pip install 'referee-pipeline[cluster]', or unset {ADDRESS}"
        ) from None
    # Every logger of Dask has a level of its own; users need no traceback of a lost connection
    for name in ("tornado", "asyncio", *logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    # A classifier or a basis may take some megabytes, but is sent only once and kept by the scheduler.
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VersionMismatchWarning)  # `check_workers` names the worker
            return Client(address, timeout=CONNECT_SECONDS, set_as_default=False, name="referee")
    except (OSError, TimeoutError, ValueError) as error:
        reason = f"no scheduler answers ({one_line(error)[:160]})"
        raise ClusterError(f"{ADDRESS}={address}: {reason}; start one, or unset {ADDRESS}") from None


class Cluster:
    """Connection to a Dask scheduler with checked workers; see `connected`."""

    def __init__(self, client: Client, address: str, requirements: Requirements) -> None:
        self.address = address
        self._client = client
        self._requirements = requirements
        self._threads, self._counted_at = 0, -COUNT_SECONDS

    def check_workers(self) -> int:
        """Check all current workers and return their number."""
        with self._explained():
            answers = self._client.run(unmet, self._requirements, on_error="return")
        for worker, answer in sorted(answers.items()):
            if answer is not None:
                problem = _cannot_start(answer) if isinstance(answer, Exception) else answer
                raise ClusterError(f"worker {worker} {problem}")
        return len(answers)

    def threads(self) -> int:
        """Return how many tasks the cluster runs at once, counted at most once per second."""
        now = time.monotonic()
        if now - self._counted_at >= COUNT_SECONDS:
            with self._explained():
                counts = self._client.nthreads(callback_timeout=SILENCE_SECONDS)
            self._threads, self._counted_at = sum(counts.values()), now
        return self._threads

    def submit(self, function: Callable[..., Result], *args: Any) -> Future[Result]:
        """Submit a call; its arguments may be futures of other calls."""
        with self._explained():
            return self._client.submit(call_checked, self._requirements, function, *args, pure=False)

    def result(self, future: Future[Result]) -> Result:
        """Return the result of a call when it is done."""
        with self._explained():
            return future.result()

    def collect(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
        """Yield pairs (item, function(item)), computed by the workers, as they are done.

        Items are submitted shortly before a worker becomes free, so that late workers find work and slow ones get less
        of it. Items of a lost worker are repeated by another. After an error, finished results are still yielded.
        """
        rest = iter(items)
        running: dict[Future[Result], Item] = {}
        finished: SimpleQueue[Future[Result]] = SimpleQueue()
        last_activity = time.monotonic()  # of a worker, or last warning
        try:
            while True:
                for item in itertools.islice(rest, max(0, max(1, TASKS_PER_THREAD * self.threads()) - len(running))):
                    future = self.submit(function, item)
                    running[future] = item
                    future.add_done_callback(finished.put)
                if not running:
                    return
                try:
                    future = finished.get(timeout=COUNT_SECONDS)
                except Empty:
                    if time.monotonic() - last_activity >= WARN_SECONDS and not self.threads():
                        last_activity = time.monotonic()
                        warn(f"cluster {self.address}: no worker; waiting for one")
                    continue
                last_activity = time.monotonic()
                item = running.pop(future)
                try:
                    result = self.result(future)
                except RefereeError:  # keep the rows of all other images
                    for other_future, other_item in running.items():
                        if other_future.status == "finished":
                            yield other_item, self.result(other_future)
                    raise
                yield item, result
        finally:
            for future in running:
                future.release()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return ``function(item)`` for every item, in order."""
        numbered = self.collect(lambda pair: function(pair[1]), enumerate(items))
        results = {number: result for (number, _), result in numbered}
        return [results[number] for number in sorted(results)]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn Dask's exceptions about a failed cluster into a ClusterError."""
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        try:
            yield
        except KilledWorker as error:
            raise ClusterError(
                f"cluster {self.address}: {error.allowed_failures + 1} workers died at the same piece of work, "
                f"the last was {error.last_worker.address}; look into their logs (memory?) and {HOW_TO_CONTINUE}"
            ) from None
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "pipeline":
                raise
            raise ClusterError(f"cluster {self.address}: a worker {_cannot_start(error)}") from None
        except (CancelledError, CommClosedError, TimeoutError, OSError) as error:
            lost = isinstance(error, CancelledError | CommClosedError | TimeoutError)
            if not lost and self._client.status == "running":
                raise  # an OSError of the task itself
            raise ClusterError(f"cluster {self.address}: the scheduler is gone; {HOW_TO_CONTINUE}") from None


def warn(text: str) -> None:
    """Write a line to stderr, apart from the output of a stage."""
    sys.stderr.write(f"referee: {text}\n")
    sys.stderr.flush()


def _cannot_start(error: Exception) -> str:
    return (
        f"cannot run this package ({type(error).__name__}: {one_line(error)[:200]}); "
        "install the same version of it there, with the extra [cluster]"
    )


@dataclass(frozen=True)
class Requirements:
    """Requirements of a run that every worker must meet."""

    token: Path  # file in the project's folder
    content: str  # random content of the token, which a worker can only know by reading it
    paths: tuple[Path, ...]  # absolute paths that must exist
    software: dict[str, str]  # see `software`


def call_checked(requirements: Requirements, function: Callable[..., Result], *args: Any) -> Result:
    """Check this worker once per run, then call ``function``; errors name the worker."""
    if requirements.content not in _passed:
        if problem := unmet(requirements):
            raise ClusterError(f"{_this_worker()} {problem}")
        _passed.add(requirements.content)
    try:
        return function(*args)
    except ClusterError:
        raise
    except RefereeError as error:
        raise type(error)(f"{error} (on {_this_worker()})") from None


def _this_worker() -> str:
    from distributed import get_worker

    worker = get_worker()
    name = "" if str(worker.name).startswith(worker.address) else f"{worker.name} on "
    return f"worker {worker.address} ({name}{socket.gethostname()})"


def unmet(requirements: Requirements) -> str | None:
    """Return which requirement this process does not meet, as the end of a sentence with the remedy, or None."""
    installed = software()
    for name, version in requirements.software.items():
        if installed.get(name) == version:
            continue
        if name == CODE:
            return (
                "runs other code of this package (it may have loaded it before the last change); "
                "restart the worker, with the same version installed"
            )
        return (
            f"has {name} {installed.get(name, 'absent')}, this process {version}; "
            "install the versions in constraints.txt on every worker and restart it"
        )
    if not _holds(requirements.token, requirements.content):
        return (
            f"does not see {requirements.token.parents[2]}; start it where the project's folder is mounted "
            f"under the same path, or unset {ADDRESS} to run on this machine alone"
        )
    for path in requirements.paths:
        if not path.exists():
            return f"does not see {path}; mount it there on every worker, or unset {ADDRESS}"
    return None


def _holds(file: Path, content: str) -> bool:
    """Return whether a file has this content; wait for a file that may not be visible yet."""
    deadline = time.monotonic() + FILE_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError):
            return file.read_text(encoding="utf-8") == content
        time.sleep(0.2)
    return False


@functools.cache
def software() -> dict[str, str]:
    """Return the versions of Python and the libraries, and a digest of the package's code."""
    versions = {"Python": platform.python_version()}
    for library in LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            versions[library] = "absent"
    return {**versions, CODE: code_digest(PACKAGE)}


def code_digest(package: Path) -> str:
    """Return a digest of a package's Python files that does not depend on the package's location."""
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(f"{file.relative_to(package).as_posix()}\n".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]
