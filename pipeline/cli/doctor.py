"""Show what is there, what is missing, and the remedy.

One screen: Python and packages, free disk, the DVC remote, the device that
models will run on, and all that `referee check` looks for, such as weights and
the images of every domain. ✓ is present, ✗ missing, · worth knowing. Status 1
if something that is needed is missing.

reads:  params.yaml, suite.yaml, .dvc/config, dvc.lock; lists image folders
writes: nothing
examples:
  referee doctor
  referee doctor --counts
"""

import os
import platform
import re
import shutil
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from pipeline.cli.check import MISSING, NOTE, PRESENT, Finding, check_values, from_error, images, weights
from pipeline.config.params import load_params
from pipeline.dvc_lock import read_stages
from pipeline.errors import InputError, ModelError, ParamsError, counted
from pipeline.revision_files import dvc_config

PACKAGES = ("torch", "timm", "open_clip_torch", "numpy", "pillow", "pywavelets", "zarr", "dvc")
LEAST_FREE = 2.0  # gigabytes
REINSTALL = "run `make env`, or pip install -c constraints.txt -e ."


def machine() -> Iterator[Finding]:
    """Yield findings about Python, packages that results depend on, free disk, git and DVC."""
    yield Finding(PRESENT, f"Python {platform.python_version()}, {counted(os.cpu_count() or 1, 'core')}")
    found, absent = [], []
    for package in PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            absent.append(package)
    yield Finding(PRESENT, ", ".join(found))
    if absent:
        yield Finding(MISSING, f"not installed: {', '.join(absent)}", REINSTALL)
    free = shutil.disk_usage(Path()).free / 1e9
    subject = f"{free:,.1f} GB free on disk"
    if free >= LEAST_FREE:
        yield Finding(PRESENT, subject)
    else:
        yield Finding(MISSING, subject, f"free some space: {LEAST_FREE:.0f} GB or more")
    here = Path().resolve()
    if not any((folder / ".git").exists() for folder in (here, *here.parents)):  # someone unpacked an archive
        yield Finding(MISSING, "no git repository here, and DVC runs in one", "git init")
    yield dvc_remote()
    try:
        read_stages()
    except InputError as error:  # nothing can be pulled or run
        yield Finding(MISSING, *str(error).split("; ", 1))


def dvc_remote() -> Finding:
    """Return the DVC remote as configured; it is not contacted."""
    try:
        config = dvc_config()
    except ParamsError as error:
        return from_error("DVC", error)
    # without the user name and password of the URL
    urls = {name: re.sub(r"(?<=//)[^/@]*@", "", remote["url"]) for name, remote in config["remote"].items()}
    default = config["core"].get("remote")
    if default in urls:
        return Finding(PRESENT, f"DVC remote {default}: {urls[default]}")
    if default is not None:
        return Finding(MISSING, f"DVC remote {default}: not configured", f"dvc remote add {default} URL")
    if urls:
        return Finding(NOTE, f"DVC remotes {', '.join(urls)}: no default", "dvc remote default NAME")
    return Finding(NOTE, "no DVC remote: caches stay on this machine", "referee share URL")


def device(name: str) -> Finding:
    """Return the device that models will run on, with its memory."""
    try:
        from pipeline.encoders.device import choose_device, describe_device

        return Finding(PRESENT, f"device {name}: {describe_device(choose_device(name))}")
    except ModelError as error:
        return Finding(MISSING, str(error), "change runtime.device in params.yaml")
    except ImportError as error:
        return Finding(MISSING, f"torch does not load: {error}", REINSTALL)


def examine(*, counts: bool) -> Iterator[str | Finding]:
    """Yield headings and findings of the machine and of what the two files name."""
    yield "machine"
    yield from machine()
    try:
        params = load_params()
        check_values(params)
    except ParamsError as error:
        yield "settings"
        remedy = "correct the key, or `referee use digits` to start anew" if Path("params.yaml").is_file() else ""
        yield from (Finding(MISSING, line, remedy) for line in str(error).splitlines())
        return
    yield device(params.runtime.device)
    yield f"weights of suite {params.suite}"
    yield from weights(params)
    yield f"images of suite {params.suite}"
    yield from images(params, counts=counts)


def doctor(*, counts: bool) -> int:
    """Write the screen; return 1 where something needed is missing."""
    complete = True
    for line in examine(counts=counts):
        if isinstance(line, Finding):
            complete = complete and line.mark != MISSING
            sys.stdout.write(f"  {line.mark} {line}\n")
        else:
            sys.stdout.write(f"{line}\n")
    sys.stdout.write("all there\n" if complete else f"something is missing: see each {MISSING}\n")
    return 0 if complete else 1


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--counts", action="store_true", help="list every class with its images")
