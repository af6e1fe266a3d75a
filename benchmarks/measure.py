"""Measuring: a line of the table of benchmarks, and times of functions and commands."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Work = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """What was measured, in ``unit`` ("×" or "s"); what it is a ratio to and its goal, or "–"; both sides in words."""

    name: str
    ratio: float
    baseline: str
    target: str
    met: bool
    detail: str = ""
    unit: str = "×"
    module: str = ""  # of this package, that measured it


def at_least(name: str, ratio: float, baseline: str, goal: float, detail: str) -> Row:
    """Return the row of a speed-up: the larger the better."""
    return Row(name, round(ratio, 3), baseline, f"≥ {goal:g}×", ratio >= goal, detail)


def at_most(name: str, ratio: float, baseline: str, goal: float, detail: str, *, unit: str = "×") -> Row:
    """Return the row of a cost: the smaller the better."""
    target = f"≤ {goal:g} s" if unit == "s" else f"≤ {goal:g}×"
    return Row(name, round(ratio, 3), baseline, target, ratio <= goal, detail, unit)


def seconds(work: Work, clock: Callable[[], float] = time.perf_counter) -> float:
    """Time one run of ``work``; freeing its result is not part of it."""
    start = clock()
    result = work()
    elapsed = clock() - start
    del result
    return elapsed


def best_in_turns(
    *works: Work, rounds: int, clock: Callable[[], float] = time.perf_counter, warm_up: bool = True
) -> list[float]:
    """Run all ``works`` once unmeasured, then ``rounds`` times in turns; return the shortest time of each.

    In turns, so that whatever else the machine does disturbs all of them. For work on one thread, ``time.thread_time``
    counts only what the processor spent on it.
    """
    for work in works if warm_up else ():
        work()
    times = [[seconds(work, clock) for work in works] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def run_command(folder: Path, *command: str) -> tuple[float, float, str]:
    """Run a command, which must succeed; return its seconds on the clock and on the processor, and what it printed."""
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": path,
        "DVC_NO_ANALYTICS": "1",
    }
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout
