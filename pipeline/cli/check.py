"""`referee check`: is params.yaml valid, and is what it names there?

`make repro` runs it first: of a missing folder DVC would only say "missing data".
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.help_text import command
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.errors import InputError, ParamsError, did_you_mean
from pipeline.params import Params, load_params
from pipeline.stages.method_options import method_options

if TYPE_CHECKING:
    from argparse import _SubParsersAction

DESCRIPTION = """\
Is params.yaml valid, and is what it names there? Every mistake is one line
with its key and, for a misspelt name, the nearest valid one. `make repro`
runs it first: of a missing folder DVC would only say "missing data".
"""


def missing(params: Params) -> list[str]:
    """Return one line for every file or folder that params.yaml names and that is not there."""
    places = {f"models.{key}.origin": model.origin for key, model in params.models.items()}
    places |= {
        f"domains.{key}.images": domain.images
        for key, domain in params.domains.items()
        if key not in params.generated
    }
    places |= {f"lists.{key}.file": image_list.file for key, image_list in params.lists.items()}
    return [
        f"{key}: {place}: no such file or folder"
        for key, place in places.items()
        if not Path(place).exists()
    ]


def check_values(params: Params) -> None:
    """Raise for what only the modules that use it can judge: better now than after an hour of extraction."""
    from pipeline.comparison.registry import compared_method  # scipy: half a second

    method_options(params.method)
    for name in params.compare.methods:
        compared_method(name)
    known = [field.name for field in fields(Preprocessing)]
    for key, model in params.models.items():
        for name in model.preprocessing:
            if name not in known:
                where = f"params.yaml: models.{key}.preprocessing.{name}"
                raise ParamsError(f"{where}: unknown key{did_you_mean(name, known)}")


def run(args: argparse.Namespace) -> int:
    """Validate; with a lock file, absent inputs may still be served from the cache, so they are only told."""
    params = load_params()
    check_values(params)
    absent = missing(params)
    if absent and not Path("dvc.lock").exists():
        raise InputError(
            "\n".join(absent)
            + "\nput them there, or change params.yaml; `referee doctor` tells more"
        )
    for line in absent:
        sys.stderr.write(
            f"referee: note: {line}; stages that need it are served from the cache or fail\n"
        )
    if not args.quiet:
        sys.stdout.write(
            f"params.yaml: suite {params.suite}, {len(params.domains)} domains, {len(params.models)} models: valid\n"
        )
    return 0


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = command(
        commands,
        "check",
        "validate params.yaml before anything runs",
        DESCRIPTION,
        reads="params.yaml, and looks whether the files and folders it names are there",
        writes="nothing",
        examples="referee check\nreferee check --quiet && dvc repro",
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing when all is well")
    parser.set_defaults(run=run)
