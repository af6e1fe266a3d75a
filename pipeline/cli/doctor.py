"""Show what is installed, what is missing and how to get it.

Lists Python and its packages, free disk space, the DVC remote, the device that
models will run on, the weights of every model and the images of every domain.
✓ means present, ✗ missing, · worth knowing. The exit status is 1 if anything
required is missing.

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

from pipeline.cli.check import MISSING, NOTE, PRESENT, Finding, check_images, check_values, check_weights, error_finding
from pipeline.config.params import load_params
from pipeline.dvc_lock import read_stages
from pipeline.errors import InputError, ModelError, ParamsError, counted
from pipeline.revision_files import dvc_config

PACKAGES = ("torch", "timm", "open_clip_torch", "numpy", "pillow", "pywavelets", "zarr", "dvc")
MIN_FREE_GB = 2.0
REINSTALL = "run `make env`, or pip install -c constraints.txt -e ."


def check_machine() -> Iterator[Finding]:
    """Yield findings about Python, the packages that results depend on, disk space, git and DVC."""
    yield Finding(PRESENT, f"Python {platform.python_version()}, {counted(os.cpu_count() or 1, 'core')}")
    installed, absent = [], []
    for package in PACKAGES:
        try:
            installed.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            absent.append(package)
    yield Finding(PRESENT, ", ".join(installed))
    if absent:
        yield Finding(MISSING, f"not installed: {', '.join(absent)}", REINSTALL)
    free = shutil.disk_usage(Path()).free / 1e9
    subject = f"{free:,.1f} GB free on disk"
    if free >= MIN_FREE_GB:
        yield Finding(PRESENT, subject)
    else:
        yield Finding(MISSING, subject, f"free at least {MIN_FREE_GB:.0f} GB")
    current = Path().resolve()
    if not any((folder / ".git").exists() for folder in (current, *current.parents)):  # e.g. an unpacked archive
        yield Finding(MISSING, "no git repository, which DVC needs", "git init")
    yield check_remote()
    try:
        read_stages()
    except InputError as error:
        yield Finding(MISSING, *str(error).split("; ", 1))


def check_remote() -> Finding:
    """Return a finding about the configured DVC remote, without contacting it."""
    try:
        config = dvc_config()
    except ParamsError as error:
        return error_finding("DVC", error)
    # drop user name and password from the URL
    urls = {name: re.sub(r"(?<=//)[^/@]*@", "", remote["url"]) for name, remote in config["remote"].items()}
    default = config["core"].get("remote")
    if default in urls:
        return Finding(PRESENT, f"DVC remote {default}: {urls[default]}")
    if default is not None:
        return Finding(MISSING, f"DVC remote {default}: not configured", f"dvc remote add {default} URL")
    if urls:
        return Finding(NOTE, f"DVC remotes {', '.join(urls)}: no default", "dvc remote default NAME")
    return Finding(NOTE, "no DVC remote: caches stay on this machine", "referee share URL")


def check_device(name: str) -> Finding:
    """Return a finding about the device that models will run on, with its memory."""
    try:
        from pipeline.encoders.device import choose_device, describe_device

        return Finding(PRESENT, f"device {name}: {describe_device(choose_device(name))}")
    except ModelError as error:
        return Finding(MISSING, str(error), "change runtime.device in params.yaml")
    except ImportError as error:
        return Finding(MISSING, f"torch cannot be imported: {error}", REINSTALL)


def examine(*, counts: bool) -> Iterator[str | Finding]:
    """Yield headings and findings about the machine, the settings, the weights and the images."""
    yield "machine"
    yield from check_machine()
    try:
        params = load_params()
        check_values(params)
    except ParamsError as error:
        yield "settings"
        remedy = "correct the key, or start again with `referee use digits`" if Path("params.yaml").is_file() else ""
        yield from (Finding(MISSING, line, remedy) for line in str(error).splitlines())
        return
    yield check_device(params.runtime.device)
    yield f"weights of suite {params.suite}"
    yield from check_weights(params)
    yield f"images of suite {params.suite}"
    yield from check_images(params, counts=counts)


def doctor(*, counts: bool) -> int:
    """Print all findings; return 1 if anything required is missing, else 0."""
    complete = True
    for line in examine(counts=counts):
        if isinstance(line, Finding):
            complete = complete and line.mark != MISSING
            sys.stdout.write(f"  {line.mark} {line}\n")
        else:
            sys.stdout.write(f"{line}\n")
    sys.stdout.write("nothing is missing\n" if complete else f"something is missing: see the lines with {MISSING}\n")
    return 0 if complete else 1


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--counts", action="store_true", help="list every class with its number of images")
