"""What a process runs: Python, the libraries that decide bits, and the code of this package.

Workers of a cluster live long. What one of them runs is looked at once, when it first hears from us, and kept: the
files may change later, the modules that it has loaded do not.
"""

from __future__ import annotations

import functools
import hashlib
import platform
from importlib import metadata
from pathlib import Path

LIBRARIES = (
    *("numpy", "scipy", "torch", "timm", "open_clip_torch", "pillow", "pywavelets", "zarr"),
    *("dask", "distributed", "cloudpickle"),
)
PACKAGE = Path(__file__).parents[1]
CODE = "this package's code"


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
    """Return a digest of a package's Python and C files, wherever it lies."""
    digest = hashlib.sha256()
    for file in sorted(file for file in package.rglob("*") if file.suffix in (".py", ".c", ".h")):
        digest.update(f"{file.relative_to(package).as_posix()}\n".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def difference(here: dict[str, str], there: dict[str, str]) -> str | None:
    """Say in what another process differs from this one, and the remedy; None if in nothing."""
    for name, version in here.items():
        found = there.get(name, "absent")
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
