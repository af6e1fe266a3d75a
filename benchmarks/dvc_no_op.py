"""`dvc repro` and `dvc status` where nothing changed, for the paper's 21 problems: tiny files, the real graph."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.row import Row, at_most

ROOT = Path(__file__).resolve().parents[1]
SUITE = "all21"
GOALS = {"repro": 8.0, "status": 5.0}


def lay_out(folder: Path) -> None:
    """Make a project of the suite: graph, package, params, and a repository."""
    for name in ("dvc.yaml", ".dvcignore", "params.yaml", "suite.yaml"):
        shutil.copy(ROOT / name, folder)
    for name in ("checks", "suites", "pipeline"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".gitignore").write_text("/data\n/cache\n/results\n/weights\n/.referee\n")
    run(folder, "git", "init", "--quiet")
    run(folder, "dvc", "init", "--quiet")
    shutil.copy(ROOT / ".dvc" / "config", folder / ".dvc")
    run(folder, sys.executable, "-m", "pipeline.cli.main", "use", SUITE)


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the project; it must succeed."""
    scripts = Path(sys.executable).parent
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": path,
        "DVC_NO_ANALYTICS": "1",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
    return done


def fake_outputs(folder: Path) -> int:
    """Write something wherever a stage reads or writes, and have DVC take it for the result; return the stages."""
    from dvc.repo import Repo  # slow to import, and only this function needs it

    with contextlib.chdir(folder), Repo() as repo:
        stages = list(repo.index.stages)
        outs = {out.fs_path for stage in stages for out in stage.outs}
        deps = {dep.fs_path for stage in stages for dep in stage.deps}
        write_each(Path(path) for path in sorted(deps - outs) + sorted(outs))
        repo.commit(force=True)
    return len(stages)


def write_each(paths: Iterable[Path]) -> None:
    """Write a small store, folder of images or file at each path that is not there."""
    for path in paths:
        if path.exists():
            continue
        if path.suffix == ".zarr":
            for view in ("original", "zeros", "rand"):
                write(path / view / "c" / "0" / "0")
                write(path / view / "zarr.json")
            write(path / "zarr.json")
        elif path.suffix:
            write(path)
        else:
            for number in range(30):
                write(path / f"class{number % 3}" / f"{number}.jpg")


def write(path: Path) -> None:
    """Write a few bytes of JSON that no other file has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"path": str(path)}))


def no_op(folder: Path, command: str) -> tuple[float, float]:
    """Run a DVC command that has nothing to do; return its time on the clock and on the processor, in seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = run(folder, "dvc", command)
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert not re.search("changed (deps|outs|stage)", done.stdout), done.stdout[-2000:]
    assert set(re.findall("Running stage '(.*)'", done.stdout)) <= {"checks/dvc.yaml:workspace"}
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return elapsed, cpu


def rows(quick: bool) -> list[Row]:
    """Time both commands on the suite of 21 problems."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(folder)
        stages = fake_outputs(folder)
        times: dict[str, list[tuple[float, float]]] = {command: [] for command in GOALS}
        for _ in range(1 if quick else 5):
            for command in GOALS:
                times[command].append(no_op(folder, command))
    return [
        at_most(
            f"dvc {command} with nothing changed, 21 problems",
            min(times[command])[0],
            "–",
            goal,
            f"{stages} stages; {min(cpu for _, cpu in times[command]):.1f} s of processor time",
            unit="s",
        )
        for command, goal in GOALS.items()
    ]
