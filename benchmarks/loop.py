"""The loop of a researcher on the digits: from images to the report in a fresh clone, then another sigma, on the clock.

What is measured is the last commit: a clone of it, with the packages of this environment.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml import YAML

from benchmarks.dvc_no_op import ROOT, timed
from benchmarks.row import Row, at_most

# after sigma was changed: what is asked for, seconds wanted, and whether one core is measured too
COMMANDS = (("evaluate@mnist-uci", 6, True), ("evaluate", 15, True), ("", 60, False))
ONE_CORE = ("taskset", "-c", "0")


def change(folder: Path, section: str, key: str, value: object) -> None:
    """Set a key of params.yaml."""
    yaml, path = YAML(), folder / "params.yaml"
    params = yaml.load(path)
    params[section][key] = value
    yaml.dump(params, path)


def rows(quick: bool) -> list[Row]:
    """Measure the whole and every command; quick: one seed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "digits"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        seeds = [0] if quick else [0, 1, 2, 3, 4]
        change(folder, "data", "seeds", seeds)
        first = row(folder, f"digits, {len(seeds)} seeds, a fresh clone", 180, "dvc", "repro")
        return [first, *after_sigma(folder, quick)]


def after_sigma(folder: Path, quick: bool) -> Iterator[Row]:
    """Yield a row for every command."""
    sigma = 1e-4
    for target, goal, both in COMMANDS:
        for before in ((), ONE_CORE) if both and not quick and shutil.which(ONE_CORE[0]) else ((),):
            sigma *= 1.1
            change(folder, "rff", "sigma", float(f"{sigma:.3g}"))
            cores = ", one core" if before else ""
            yield row(folder, f"digits, sigma changed{cores}", goal, *before, "dvc", "repro", *target.split())


def row(folder: Path, name: str, goal: float, *command: str) -> Row:
    """Run a command and return its row."""
    elapsed, cpu, output = timed(folder, *command)
    stages = output.count("Running stage")
    detail = f"{stages} stages; {cpu:.1f} s of processor time"
    return at_most(f"{name}: `{' '.join(command)}`", elapsed, "–", goal, detail, unit="s")
