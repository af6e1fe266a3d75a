"""What `referee doctor` says of the machine: Python, packages, device, room, DVC remote."""

from __future__ import annotations

import configparser
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from pipeline.cli.findings import Finding, missing, note, ok
from pipeline.errors import ModelError

PACKAGES = ("torch", "timm", "open_clip_torch", "numpy", "pillow", "pywavelets", "zarr", "dvc")
OLDEST_PYTHON = (3, 11)
GIGABYTE = 1e9
LEAST_ROOM = 2.0  # gigabytes
REINSTALL = "run `make env`, or pip install -c constraints.txt -e ."


def python_and_packages() -> Iterator[Finding]:
    """Yield the Python version and the versions of the packages that results depend on."""
    version = f"Python {platform.python_version()}"
    if sys.version_info >= OLDEST_PYTHON:
        yield ok(f"{version}, {os.cpu_count()} cores")
    else:
        yield missing(version, "install Python 3.11 or newer, remove .venv, run make again")
    found, absent = [], []
    for package in PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            absent.append(package)
    yield ok(", ".join(found))
    if absent:
        yield missing(f"not installed: {', '.join(absent)}", REINSTALL)


def device(wanted: str) -> Iterator[Finding]:
    """Yield the device that models will run on, with its memory."""
    try:
        from pipeline.encoders.device import choose_device, describe_device

        yield ok(f"device {wanted}: {describe_device(choose_device(wanted))}")
    except ModelError as error:
        yield missing(str(error), "change runtime.device in params.yaml")
    except ImportError as error:
        yield missing(f"torch does not load: {error}", REINSTALL)


def room(root: Path) -> Iterator[Finding]:
    """Yield the free disk space."""
    free = shutil.disk_usage(root).free / GIGABYTE
    what = f"{free:,.1f} GB free on disk"
    yield (
        ok(what) if free >= LEAST_ROOM else missing(what, f"make room: {LEAST_ROOM:.0f} GB or more")
    )


def dvc_remote(root: Path) -> Iterator[Finding]:
    """Yield the DVC remote, read from its configuration files without asking it."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read([root / ".dvc" / "config", root / ".dvc" / "config.local"], encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        yield missing(f".dvc/config: {' '.join(str(error).split())}", "mend the file")
        return
    if not (root / ".dvc").is_dir():
        yield missing("DVC: there is no .dvc folder", "run `dvc init` in the repository's root")
        return
    urls = {}
    for section in parser.sections():
        named = re.fullmatch(r"""'?remote "(.+)"'?""", section)
        if named:
            urls[named[1]] = _without_password(parser.get(section, "url", fallback="no url"))
    default = parser.get("core", "remote", fallback=None)
    if default in urls:
        yield ok(f"DVC remote {default}: {urls[default]}")
    elif default is not None:
        yield missing(f"DVC remote {default}: not configured", f"dvc remote add {default} URL")
    elif urls:
        yield note(f"DVC remotes {', '.join(urls)}: no default", "dvc remote default NAME")
    else:
        yield note("no DVC remote: caches stay on this machine", "referee share URL")


def _without_password(url: str) -> str:
    return re.sub(r"(?<=//)[^/@]*@", "", url)
