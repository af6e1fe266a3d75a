"""`referee doctor`: what is there and what is missing, in one screen, with the remedy beside it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli import doctor_datasets, doctor_machine
from pipeline.cli.findings import Finding, missing, note, ok
from pipeline.cli.help_text import command
from pipeline.cli.on_disk import checkpoints, comes_from_the_hub
from pipeline.errors import ParamsError
from pipeline.params import PARAMS_FILE, Params, load_params

if TYPE_CHECKING:
    from argparse import _SubParsersAction

MEGABYTE = 1e6
DESCRIPTION = """\
One screen: Python and packages, the device models will run on, free disk,
weights, images per domain, the DVC remote; ✓ there, ✗ missing, · worth
knowing, with the remedy beside it. Status 1 if something needed is missing.
"""


def weights(params: Params, root: Path) -> Iterator[Finding]:
    """Yield one finding per model."""
    for key, model in params.models.items():
        what = f"{key}: {model.library} {model.name or model.origin}".rstrip()
        files = checkpoints(model, root)
        if len(files) == 1:
            yield ok(f"{what}: {model.origin}, {files[0].stat().st_size / MEGABYTE:,.1f} MB")
        elif files:
            yield missing(
                f"{what}: {model.origin} holds {len(files)} checkpoints",
                f"name the one to use in models.{key}.origin",
            )
        elif comes_from_the_hub(model, root):
            yield note(
                f"{what}: no file in {model.origin}",
                f"downloaded from the hub at first use; without it, see {model.origin}/README.md",
            )
        else:
            yield missing(
                f"{what}: no {model.origin}",
                f"put the file there, or make a folder for the hub's weights (models.{key}.origin)",
            )


def examine(params_path: Path, *, counts: bool) -> Iterator[str | Finding]:
    """Yield headings and findings."""
    root = params_path.parent
    yield "machine"
    yield from doctor_machine.python_and_packages()
    try:
        params = load_params(params_path)
    except ParamsError as error:
        for line in str(error).splitlines():
            yield missing(line, "mend the key; `referee use digits` puts a working suite back")
        return
    yield from doctor_machine.device(params.runtime.device)
    yield from doctor_machine.room(root)
    yield f"weights (suite {params.suite})"
    yield from weights(params, root)
    yield f"images (suite {params.suite})"
    yield from doctor_datasets.images(params, root, counts=counts)
    yield "sharing"
    yield from doctor_machine.dvc_remote(root)


def run(args: argparse.Namespace) -> int:
    """Write the screen; return 1 where something needed is missing."""
    usable = True
    for line in examine(PARAMS_FILE, counts=args.counts):
        sys.stdout.write(f"{line}\n")
        usable = usable and not (isinstance(line, Finding) and line.mark == "✗")
    sys.stdout.write("all there\n" if usable else "something is missing: see each ✗\n")
    return 0 if usable else 1


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = command(
        commands,
        "doctor",
        "say what is there, what is missing, and the remedy",
        DESCRIPTION,
        reads="params.yaml, .dvc/config; lists image folders, opens no image",
        writes="nothing",
        examples="referee doctor\nreferee doctor --counts",
    )
    parser.add_argument("--counts", action="store_true", help="list every class with its images")
    parser.set_defaults(run=run)
