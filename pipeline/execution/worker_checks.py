"""What a worker must have before it works for a run: the same software, and the same files under the same paths.

Asked of every worker at the start, and by every task again on the worker that runs it (once per run), because workers
join late.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from pipeline.errors import ClusterError, RefereeError
from pipeline.execution.software import difference, software

P = ParamSpec("P")
Result = TypeVar("Result")

PATIENCE = 5.0  # seconds for a file just written to be seen through a network file system
_passed: set[str] = set()  # runs whose demands this process has met


@dataclass(frozen=True)
class Demands:
    """What a run asks of a worker.

    token: a file in the project's folder, whose content nobody could know who does not see that folder.
    paths: what else must be there, absolute.
    """

    token: Path
    content: str
    paths: tuple[Path, ...]
    software: dict[str, str]


def unmet(demands: Demands) -> str | None:
    """Say what this process lacks; None if nothing."""
    if told := difference(demands.software, software()):
        return told
    if _read_patiently(demands.token) != demands.content:
        return (
            f"does not see {demands.token.parents[2]}; start it where the project's folder is mounted "
            "under the same path, or unset DASK_SCHEDULER_ADDRESS to run on this machine alone"
        )
    for path in demands.paths:
        if not path.exists():
            return f"does not see {path}; mount it there on every worker, or unset DASK_SCHEDULER_ADDRESS"
    return None


def _read_patiently(path: Path) -> str | None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return path.read_text(encoding="utf-8")
        except OSError:
            if time.monotonic() > end:
                return None
            time.sleep(0.2)


def checked(
    demands: Demands, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs
) -> Result:
    """Run ``function`` on a worker that meets the demands; what is wrong is told with the worker's name."""
    if demands.content not in _passed:
        told = unmet(demands)
        if told is not None:
            raise ClusterError(f"{whoami()} {told}")
        _passed.add(demands.content)
    try:
        return function(*args, **kwargs)
    except ClusterError:
        raise
    except RefereeError as error:
        raise type(error)(f"{error} (on {whoami()})") from None


def whoami() -> str:
    """Name the worker that this is."""
    from distributed import get_worker

    worker = get_worker()
    return worker_name(worker.address, f"{worker.name} on {socket.gethostname()}")


def worker_name(address: str, name: object = None) -> str:
    """Name a worker for people."""
    known = "" if name is None or str(name).startswith(address) else f" ({name})"
    return f"worker {address}{known}"
