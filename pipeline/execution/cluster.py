"""A Dask cluster as a place where work runs: connect, look at the workers, hand out, collect.

DASK_SCHEDULER_ADDRESS says whether there is one. Nothing of Dask is imported unless it is set. Whatever goes wrong with
the cluster is a `ClusterError`: one line, after which the same command can be run again, with or without a cluster.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError as Cancelled
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pipeline.errors import ClusterError, RefereeError
from pipeline.execution.software import software
from pipeline.execution.worker_checks import Demands, checked, unmet, worker_name

if TYPE_CHECKING:
    from distributed import Client, Future

Item = TypeVar("Item")
Result = TypeVar("Result")

ADDRESS = "DASK_SCHEDULER_ADDRESS"
AGAIN = f"run the same command again to continue, or unset {ADDRESS} to continue on this machine"
CONNECT_SECONDS = 10
SILENCE_SECONDS = 30  # after which a scheduler that does not answer is given up
LOOK_SECONDS = 1.0  # between looks at how many workers there are
WAIT_SECONDS = 60.0  # between two words about work that no worker has taken
AHEAD = 2  # tasks per thread of the cluster: one under way, one that waits on the spot


def cluster_address() -> str | None:
    """Return the scheduler's address, or None: work runs in this process."""
    return os.environ.get(ADDRESS, "").strip() or None


class Cluster:
    """A connection to a scheduler whose workers were looked at."""

    def __init__(self, client: Client, address: str, demands: Demands) -> None:
        self.address = address
        self._client = client
        self._demands = demands
        self._threads, self._counted = 0, -LOOK_SECONDS

    def threads(self) -> int:
        """How many tasks the cluster can run at once; counted anew every second."""
        now = time.monotonic()
        if now - self._counted >= LOOK_SECONDS:
            with self._explained():
                counts = self._client.nthreads(callback_timeout=SILENCE_SECONDS)
            self._threads, self._counted = sum(counts.values()), now
        return self._threads

    def submit(self, function: Callable[..., Result], *args: Any) -> Future[Result]:
        """Hand out one call; an argument may be what another `submit` returned."""
        with self._explained():
            return self._client.submit(checked, self._demands, function, *args, pure=False)

    def result(self, future: Future[Result]) -> Result:
        """Wait for what a call returns."""
        with self._explained():
            return future.result()

    def collect(
        self, function: Callable[..., Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result]]:
        """Yield each item with ``function(item)`` as soon as it is done, in any order, each once.

        Items are taken when a worker is soon free, so that a late worker finds work and a slow one gets less of it.
        What a lost worker had is done again by another. After an error, what was done by then is still yielded.
        """
        flow: _Flow[Item, Result] = _Flow(self, function, iter(items))
        yield from flow.results()

    def each(self, function: Callable[..., Result], items: Sequence[Item]) -> list[Result]:
        """Return ``function(item)`` of every item, in order."""
        places = list(enumerate(items))
        done = {place: result for (place, _), result in self.collect(_Placed(function), places)}
        return [done[place] for place in range(len(items))]

    def look(self) -> int:
        """Ask every worker that is there for what it must have; return how many there are."""
        with self._explained():
            answers = self._client.run(unmet, self._demands, on_error="return")
        for worker, told in sorted(answers.items()):
            if isinstance(told, Exception):
                raise ClusterError(f"{worker_name(worker)} {_cannot_start(told)}") from None
            if told is not None:
                raise ClusterError(f"{worker_name(worker)} {told}")
        return len(answers)

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
        except (Cancelled, CommClosedError, TimeoutError, OSError) as error:
            if self._is_answer(error):
                raise
            raise ClusterError(f"cluster {self.address}: the scheduler is gone; {AGAIN}") from None

    def _is_answer(self, error: BaseException) -> bool:
        """Is it what a task raised, and not the connection?"""
        from distributed.comm.core import CommClosedError

        lost = Cancelled | CommClosedError | TimeoutError
        return not isinstance(error, lost) and self._client.status == "running"


class _Placed(Generic[Result]):
    """A function of a numbered item."""

    def __init__(self, function: Callable[..., Result]) -> None:
        self._function = function

    def __call__(self, placed: tuple[int, Any]) -> Result:
        return self._function(placed[1])


class _Flow(Generic[Item, Result]):
    """Items on their way through a cluster."""

    def __init__(
        self, cluster: Cluster, function: Callable[..., Result], items: Iterator[Item]
    ) -> None:
        self._cluster = cluster
        self._function = function
        self._items = items
        self._under_way: dict[Future[Result], Item] = {}
        self._done: SimpleQueue[Future[Result]] = SimpleQueue()
        self._told = time.monotonic()

    def results(self) -> Iterator[tuple[Item, Result]]:
        """See `Cluster.collect`."""
        try:
            while self._fill():
                future = self._next()
                if future is None:
                    continue
                item = self._under_way.pop(future)
                try:
                    result = self._cluster.result(future)
                except RefereeError:
                    yield from self._finished()
                    raise
                yield item, result
        finally:
            for future in self._under_way:
                future.release()

    def _finished(self) -> Iterator[tuple[Item, Result]]:
        """Yield what is done by now, without waiting: one bad image costs no other its row."""
        for future, item in list(self._under_way.items()):
            if future.status == "finished":
                yield item, self._cluster.result(future)

    def _fill(self) -> bool:
        """Hand out as much as the cluster should have; return whether anything is under way."""
        wanted = max(1, AHEAD * self._cluster.threads())
        while len(self._under_way) < wanted:
            try:
                item = next(self._items)
            except StopIteration:
                break
            future = self._cluster.submit(self._function, item)
            self._under_way[future] = item
            future.add_done_callback(self._done.put)
        return bool(self._under_way)

    def _next(self) -> Future[Result] | None:
        """Return what was done next, or None if nothing was for a while."""
        try:
            future = self._done.get(timeout=LOOK_SECONDS)
        except Empty:
            self._tell_if_idle()
            return None
        self._told = time.monotonic()
        return future

    def _tell_if_idle(self) -> None:
        now = time.monotonic()
        if now - self._told >= WAIT_SECONDS and not self._cluster.threads():
            self._told = now
            say(f"cluster {self._cluster.address}: no worker; waiting for one")


def say(text: str) -> None:
    """Tell the user, apart from what a stage reports."""
    sys.stderr.write(f"referee: {text}\n")
    sys.stderr.flush()


def _cannot_start(error: Exception) -> str:
    reason = " ".join(str(error).split())[:200]
    return (
        f"cannot run this package ({type(error).__name__}: {reason}); "
        "install the same version of it there, with the extra [cluster]"
    )


@contextmanager
def work_place(scratch: Path, paths: Sequence[Path] = ()) -> Iterator[Cluster | None]:
    """Yield the cluster that the environment names, or None: this process. See `connected`."""
    address = cluster_address()
    if address is None:
        yield None
        return
    with connected(address, scratch, paths) as cluster:
        yield cluster


@contextmanager
def connected(address: str, scratch: Path, paths: Sequence[Path] = ()) -> Iterator[Cluster]:
    """Connect to the scheduler at ``address`` and look at its workers.

    scratch: a folder two levels inside the project's, where a file shows whether workers see that folder. paths: what
    workers must see besides.
    """
    client = _connect(address)
    content = secrets.token_hex(16)
    token = (scratch / f"cluster-{content[:8]}").absolute()
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text(content, encoding="utf-8")
    demands = Demands(token, content, tuple(path.absolute() for path in paths), software())
    try:
        cluster = Cluster(client, address, demands)
        if not cluster.look():
            say(f"cluster {address}: no worker yet; waiting for one")
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
    _hush()
    # a classifier or a basis may be some megabytes: sent once, kept by the scheduler, so that it outlives a worker
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VersionMismatchWarning)  # `look` says it, by worker
            return Client(address, timeout=CONNECT_SECONDS, set_as_default=False, name="referee")
    except (OSError, TimeoutError, ValueError) as error:
        reason = " ".join(str(error).split())[:160]
        raise ClusterError(
            f"{ADDRESS}={address}: no scheduler answers ({reason}); start one, or unset {ADDRESS}"
        ) from None


def _hush() -> None:
    """Silence Dask's loggers, each of which has a level of its own: tracebacks of a lost connection help no user."""
    for name in ("tornado", "asyncio", *logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
