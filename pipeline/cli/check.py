"""Validate params.yaml and suite.yaml before anything runs.

Look also whether the models, weights and images that the two files name are
there. Every problem is one line with its key and the remedy, and status 2.
`make repro` runs this first: of a missing folder DVC would only say "missing
data".

reads:  params.yaml, suite.yaml; lists image folders, opens no image
writes: nothing
examples:
  referee check
  referee check --quiet && dvc repro
"""

import argparse
import sys

from pipeline.cli import inputs
from pipeline.cli.inputs import MISSING, NOTE, Finding
from pipeline.errors import InputError, counted
from pipeline.params import load_params


def run(args: argparse.Namespace) -> int:
    """Validate both files and raise where something that they name is missing."""
    params = load_params()
    inputs.check_values(params)
    weights = list(inputs.weights(params))
    found = [*weights, *inputs.images(params)]
    lines = [str(line) for line in found if isinstance(line, Finding) and line.mark == MISSING]
    if lines:
        raise InputError("\n".join(lines))
    if not args.quiet:
        sys.stdout.writelines(f"note: {line}\n" for line in weights if line.mark == NOTE)
        holds = f"{counted(len(params.domains), 'domain')}, {counted(len(params.models), 'model')}"
        sys.stdout.write(f"params.yaml, suite.yaml: suite {params.suite}, {holds}: nothing is missing\n")
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--quiet", action="store_true", help="print nothing when all is well")
