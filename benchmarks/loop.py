"""Time DVC with nothing to do, on the paper's 21 problems (real graph, tiny files), and a researcher's loop.

The loop runs the digits suite: from images to the report in a fresh clone, then with another sigma. It measures the
last commit, which is cloned, with the packages of this environment.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml import YAML

from benchmarks.measure import Row, at_most, run_command

ROOT = Path(__file__).resolve().parents[1]
NO_OP_GOALS = {"repro": 8.0, "status": 5.0}
# target after a change of sigma, maximum seconds, whether it is also measured on one core
COMMANDS = (("evaluate@mnist-uci", 6, True), ("evaluate", 15, True), ("", 60, False))
ONE_CORE = ("taskset", "-c", "0")


def lay_out(folder: Path) -> None:
    """Create a project of all 21 problems: graph, package, params, and a repository."""
    for name in ("dvc.yaml", ".dvcignore", "params.yaml", "suite.yaml"):
        shutil.copy(ROOT / name, folder)
    for name in ("suites", "pipeline"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".gitignore").write_text("/data\n/cache\n/results\n/weights\n/.referee\n")
    run_command(folder, "git", "init", "--quiet")
    run_command(folder, "dvc", "init", "--quiet")
    shutil.copy(ROOT / ".dvc" / "config", folder / ".dvc")
    run_command(folder, sys.executable, "-m", "pipeline.cli.main", "use", "all21")


def fake_outputs(folder: Path) -> int:
    """Write fake inputs and outputs of all stages and commit them to DVC; return the number of stages."""
    from dvc.repo import Repo  # slow to import, and only this function needs it

    with contextlib.chdir(folder), Repo() as repo:
        stages = list(repo.index.stages)
        outs = {out.fs_path for stage in stages for out in stage.outs}
        deps = {dep.fs_path for stage in stages for dep in stage.deps}
        for path in map(Path, sorted(deps - outs) + sorted(outs)):
            if not path.exists():
                write_fake(path)
        repo.commit(force=True)
    return len(stages)


def write_fake(path: Path) -> None:
    """Write a small store, folder of images or file with unique contents."""
    parts = [path]
    if path.suffix == ".zarr":
        views = [path / view for view in ("original", "zeros", "rand")]
        parts = [path / "zarr.json", *(view / name for view in views for name in ("zarr.json", "c/0/0"))]
    elif not path.suffix:
        parts = [path / f"class{number % 3}" / f"{number}.jpg" for number in range(30)]
    for part in parts:
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps({"path": str(part)}))


def nothing_changed(quick: bool) -> Iterator[Row]:
    """Yield a row for each command that has nothing to do."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(folder)
        stages = fake_outputs(folder)
        times: dict[str, list[tuple[float, float]]] = {command: [] for command in NO_OP_GOALS}
        for _ in range(1 if quick else 5):
            for command, measured in times.items():
                elapsed, cpu, output = run_command(folder, "dvc", command)
                assert "Data and pipelines are up to date." in output, output[-2000:]
                assert "Running stage" not in output
                measured.append((elapsed, cpu))
    for command, goal in NO_OP_GOALS.items():
        elapsed, cpu = (min(column) for column in zip(*times[command], strict=True))
        detail = f"{stages} stages; {cpu:.1f} s of processor time"
        yield at_most(f"dvc {command} with nothing changed, 21 problems", elapsed, "–", goal, detail, unit="s")


def change(folder: Path, section: str, key: str, value: object) -> None:
    """Set a key of params.yaml."""
    yaml, path = YAML(), folder / "params.yaml"
    params = yaml.load(path)
    params[section][key] = value
    yaml.dump(params, path)


def digits(quick: bool) -> Iterator[Row]:
    """Yield the row of a full run and one per command after a change of sigma; use one seed if ``quick``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "digits"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        seeds = [0] if quick else [0, 1, 2, 3, 4]
        change(folder, "data", "seeds", seeds)
        yield row(folder, f"digits, {len(seeds)} seeds, a fresh clone", 180, "dvc", "repro")
        sigma = 1e-4
        for target, goal, also_one_core in COMMANDS:
            for prefix in ((), ONE_CORE) if also_one_core and not quick and shutil.which(ONE_CORE[0]) else ((),):
                sigma *= 1.1
                change(folder, "rff", "sigma", float(f"{sigma:.3g}"))
                cores = ", one core" if prefix else ""
                yield row(folder, f"digits, sigma changed{cores}", goal, *prefix, "dvc", "repro", *target.split())


def row(folder: Path, name: str, goal: float, *command: str) -> Row:
    """Run a command and return its row."""
    elapsed, cpu, output = run_command(folder, *command)
    detail = f"{output.count('Running stage')} stages; {cpu:.1f} s of processor time"
    return at_most(f"{name}: `{' '.join(command)}`", elapsed, "–", goal, detail, unit="s")


def rows(quick: bool) -> list[Row]:
    """Measure DVC with nothing to do, and the digits."""
    return [*nothing_changed(quick), *digits(quick)]
