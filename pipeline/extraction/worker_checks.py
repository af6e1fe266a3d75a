"""What a worker must have before it works for a run: the same software, and the same files under the same paths.

Every worker is checked at the start, and again (once per run) by the first task on it, because workers join late. They
also live long: what one runs is found once and kept, since its files may change later, the modules it has loaded not.
"""

import functools
import hashlib
import platform
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from pipeline.errors import ClusterError, RefereeError

Result = TypeVar("Result")

LIBRARIES = (
    *("numpy", "scipy", "torch", "timm", "open_clip_torch", "pillow", "pillow-heif", "pywavelets", "zarr"),
    *("dask", "distributed", "cloudpickle"),
)
PACKAGE = Path(__file__).parents[1]
CODE = "this package's code"
PATIENCE = 5.0  # seconds for a file just written to be visible through a network file system
_passed: set[str] = set()  # runs whose requirements this process has met


@dataclass(frozen=True)
class Requirements:
    """What a run asks of a worker."""

    token: Path  # a file in the project's folder
    content: str  # its content, which nobody knows who does not see that folder
    paths: tuple[Path, ...]  # absolute paths that must exist
    software: dict[str, str]  # see `software`


def unmet(requirements: Requirements) -> str | None:
    """Return what this process lacks, as the end of a sentence, or None."""
    if found := difference(requirements.software, software()):
        return found
    if _read_patiently(requirements.token) != requirements.content:
        return (
            f"does not see {requirements.token.parents[2]}; start it where the project's folder is mounted "
            "under the same path, or unset DASK_SCHEDULER_ADDRESS to run on this machine alone"
        )
    for path in requirements.paths:
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


def call_checked(requirements: Requirements, function: Callable[..., Result], *args: Any) -> Result:
    """Call ``function`` on a worker that meets the requirements; errors name the worker."""
    if requirements.content not in _passed:
        lacking = unmet(requirements)
        if lacking is not None:
            raise ClusterError(f"{this_worker()} {lacking}")
        _passed.add(requirements.content)
    try:
        return function(*args)
    except ClusterError:
        raise
    except RefereeError as error:
        raise type(error)(f"{error} (on {this_worker()})") from None


def this_worker() -> str:
    """Return the name of the worker that runs this, for people."""
    from distributed import get_worker

    worker = get_worker()
    known = "" if str(worker.name).startswith(worker.address) else f"{worker.name} on "
    return f"worker {worker.address} ({known}{socket.gethostname()})"


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


def difference(here: dict[str, str], other: dict[str, str]) -> str | None:
    """Return how another process's software differs from this one's, with the remedy, or None."""
    for name, version in here.items():
        found = other.get(name, "absent")
        if found != version and name == CODE:
            return (
                "runs other code of this package (it may have loaded it before the last change); "
                "restart the worker, with the same version installed"
            )
        if found != version:
            return (
                f"has {name} {found}, this process {version}; "
                "install the versions in constraints.txt on every worker and restart it"
            )
    return None
