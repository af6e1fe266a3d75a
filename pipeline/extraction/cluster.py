"""A Dask cluster that does work: connect, check the workers, hand out, collect.

The environment variable DASK_SCHEDULER_ADDRESS says whether there is one; nothing of Dask is
imported unless it is set. Whatever goes wrong with the cluster is a `ClusterError`: one line, after
which the same command can be run again, with or without a cluster.

A worker must have the same software as this process, and the same files under the same paths. Every worker is checked
at the start, and again (once per run) by the first task on it, because workers join late. They also live long: what
one runs is found once and kept, since its files may change later, the modules it has loaded not.
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
AGAIN = f"run the same command again to continue, or unset {ADDRESS} to continue on this machine"
CONNECT_SECONDS = 10
SILENCE_SECONDS = 30  # after which a scheduler that does not answer is given up
COUNT_SECONDS = 1.0  # between two counts of the workers
WARN_SECONDS = 60.0  # between two warnings that no worker is there
FILE_SECONDS = 5.0  # for a file just written to be visible through a network file system
AHEAD = 2  # tasks per thread of the cluster: one running, one waiting at the worker
LIBRARIES = (
    *("numpy", "scipy", "torch", "timm", "open_clip_torch", "pillow", "pillow-heif", "pywavelets", "zarr"),
    *("dask", "distributed", "cloudpickle"),
)
PACKAGE = Path(__file__).parents[1]
CODE = "this package's code"
_passed: set[str] = set()  # runs whose requirements this process has met


@contextmanager
def cluster_from_environment(scratch: Path, paths: Sequence[Path] = ()) -> Iterator[Cluster | None]:
    """Connect to the cluster that the environment names, see `connected`; yield None if it names none."""
    address = os.environ.get(ADDRESS, "").strip()
    with connected(address, scratch, paths) if address else nullcontext() as cluster:
        yield cluster


@contextmanager
def connected(address: str, scratch: Path, paths: Sequence[Path] = ()) -> Iterator[Cluster]:
    """Connect to a scheduler and check that its workers see ``paths`` and the project.

    ``scratch`` is a folder two levels inside the project's; a file in it shows whether a worker sees it.
    """
    client = _connect(address)
    content = secrets.token_hex(16)
    token = (scratch / f"cluster-{content[:8]}").absolute()
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text(content, encoding="utf-8")
    try:
        asked = Requirements(token, content, tuple(path.absolute() for path in paths), software())
        cluster = Cluster(client, address, asked)
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
    # Dask's loggers have a level each: tracebacks of a lost connection help no user
    for name in ("tornado", "asyncio", *logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    # A classifier or a basis may be some megabytes: sent once, and kept by the scheduler.
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"})
    try:
        with warnings.catch_warnings():
            # `check_workers` reports it, by worker
            warnings.simplefilter("ignore", VersionMismatchWarning)
            return Client(address, timeout=CONNECT_SECONDS, set_as_default=False, name="referee")
    except (OSError, TimeoutError, ValueError) as error:
        answer = f"no scheduler answers ({one_line(error)[:160]}); start one, or unset {ADDRESS}"
        raise ClusterError(f"{ADDRESS}={address}: {answer}") from None


class Cluster:
    """A connection to a Dask scheduler whose workers are checked; see `connected`."""

    def __init__(self, client: Client, address: str, requirements: Requirements) -> None:
        self.address = address
        self._client = client
        self._requirements = requirements
        self._threads, self._counted = 0, -COUNT_SECONDS

    def check_workers(self) -> int:
        """Check every worker that is there; return how many there are."""
        with self._explained():
            answers = self._client.run(unmet, self._requirements, on_error="return")
        for worker, answer in sorted(answers.items()):
            if answer is not None:
                lacking = _cannot_start(answer) if isinstance(answer, Exception) else answer
                raise ClusterError(f"worker {worker} {lacking}")
        return len(answers)

    def threads(self) -> int:
        """Return how many tasks the cluster runs at once; counted anew every second."""
        now = time.monotonic()
        if now - self._counted >= COUNT_SECONDS:
            with self._explained():
                counts = self._client.nthreads(callback_timeout=SILENCE_SECONDS)
            self._threads, self._counted = sum(counts.values()), now
        return self._threads

    def submit(self, function: Callable[..., Result], *args: Any) -> Future[Result]:
        """Hand out one call; an argument may be the future of another."""
        with self._explained():
            return self._client.submit(call_checked, self._requirements, function, *args, pure=False)

    def result(self, future: Future[Result]) -> Result:
        """Wait for the result of a call."""
        with self._explained():
            return future.result()

    def collect(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
        """Run a function over items on the workers.

        Items are taken when a worker is soon free, so that a late worker finds work and a slow one
        gets less of it. What a lost worker had is done again by another. After an error, what was
        done by then is still yielded.
        """
        rest = iter(items)
        running: dict[Future[Result], Item] = {}
        done: SimpleQueue[Future[Result]] = SimpleQueue()
        last = time.monotonic()
        try:
            while True:
                for item in itertools.islice(rest, max(0, max(1, AHEAD * self.threads()) - len(running))):
                    future = self.submit(function, item)
                    running[future] = item
                    future.add_done_callback(done.put)
                if not running:
                    return
                try:
                    future = done.get(timeout=COUNT_SECONDS)
                except Empty:
                    if time.monotonic() - last >= WARN_SECONDS and not self.threads():
                        last = time.monotonic()
                        warn(f"cluster {self.address}: no worker; waiting for one")
                    continue
                last = time.monotonic()
                item = running.pop(future)
                try:
                    result = self.result(future)
                except RefereeError:  # one bad image costs no other its row
                    for other, its_item in running.items():
                        if other.status == "finished":
                            yield its_item, self.result(other)
                    raise
                yield item, result
        finally:
            for future in running:
                future.release()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return ``function(item)`` of every item, in order."""
        numbered = self.collect(lambda pair: function(pair[1]), enumerate(items))
        results = {number: result for (number, _), result in numbered}
        return [results[number] for number in sorted(results)]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what Dask raises when a cluster fails into one line."""
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        try:
            yield
        except KilledWorker as error:
            raise ClusterError(
                f"cluster {self.address}: {error.allowed_failures + 1} workers died at the same piece of work, "
                f"the last was {error.last_worker.address}; look into their logs (memory?) and {AGAIN}"
            ) from None
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "pipeline":
                raise
            raise ClusterError(f"cluster {self.address}: a worker {_cannot_start(error)}") from None
        except (CancelledError, CommClosedError, TimeoutError, OSError) as error:
            lost = isinstance(error, CancelledError | CommClosedError | TimeoutError)
            if not lost and self._client.status == "running":
                raise  # an OSError of the task itself
            raise ClusterError(f"cluster {self.address}: the scheduler is gone; {AGAIN}") from None


def warn(text: str) -> None:
    """Write a line to stderr, apart from what a stage reports."""
    sys.stderr.write(f"referee: {text}\n")
    sys.stderr.flush()


def _cannot_start(error: Exception) -> str:
    return (
        f"cannot run this package ({type(error).__name__}: {one_line(error)[:200]}); "
        "install the same version of it there, with the extra [cluster]"
    )


@dataclass(frozen=True)
class Requirements:
    """What a run asks of a worker."""

    token: Path  # a file in the project's folder
    content: str  # its content, which nobody knows who does not see that folder
    paths: tuple[Path, ...]  # absolute paths that must exist
    software: dict[str, str]  # see `software`


def call_checked(requirements: Requirements, function: Callable[..., Result], *args: Any) -> Result:
    """Call ``function`` on a worker that meets the requirements; errors name the worker."""
    if requirements.content not in _passed:
        if lacking := unmet(requirements):
            raise ClusterError(f"{_this_worker()} {lacking}")
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
    known = "" if str(worker.name).startswith(worker.address) else f"{worker.name} on "
    return f"worker {worker.address} ({known}{socket.gethostname()})"


def unmet(requirements: Requirements) -> str | None:
    """Return what this process lacks, as the end of a sentence with the remedy, or None."""
    found = software()
    for name, version in requirements.software.items():
        if found.get(name) == version:
            continue
        if name == CODE:
            return (
                "runs other code of this package (it may have loaded it before the last change); "
                "restart the worker, with the same version installed"
            )
        return (
            f"has {name} {found.get(name, 'absent')}, this process {version}; "
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
    """Tell whether a file, which may appear only now, has this content."""
    end = time.monotonic() + FILE_SECONDS
    while time.monotonic() < end:
        with suppress(OSError):
            return file.read_text(encoding="utf-8") == content
        time.sleep(0.2)
    return False


@functools.cache
def software() -> dict[str, str]:
    """Return the versions of Python and the libraries, and a digest of the package's files."""
    found = {"Python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            found[library] = "absent"
    return {**found, CODE: code_digest(PACKAGE)}


def code_digest(package: Path) -> str:
    """Return a digest of a package's Python files, wherever it lies."""
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(f"{file.relative_to(package).as_posix()}\n".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]
