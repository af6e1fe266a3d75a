"""Time functions and commands, and define a row of the table of benchmarks."""

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
    """A measurement and its goal."""

    name: str
    ratio: float  # in ``unit``
    baseline: str  # denominator of the ratio, or "–"
    target: str  # the goal, or "–"
    met: bool
    detail: str = ""
    unit: str = "×"  # or "s"
    module: str = ""  # module of this package that measured the row


def at_least(name: str, ratio: float, baseline: str, goal: float, detail: str) -> Row:
    """Return the row of a speed-up, which should be at least ``goal``."""
    return Row(name, round(ratio, 3), baseline, f"≥ {goal:g}×", ratio >= goal, detail)


def at_most(name: str, ratio: float, baseline: str, goal: float, detail: str, *, unit: str = "×") -> Row:
    """Return the row of a cost, which should be at most ``goal``."""
    target = f"≤ {goal:g} s" if unit == "s" else f"≤ {goal:g}×"
    return Row(name, round(ratio, 3), baseline, target, ratio <= goal, detail, unit)


def seconds(work: Work, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the time of one run of ``work``, without the time to free its result."""
    start = clock()
    result = work()
    elapsed = clock() - start
    del result
    return elapsed


def best_in_turns(
    *works: Work, rounds: int, clock: Callable[[], float] = time.perf_counter, warm_up: bool = True
) -> list[float]:
    """Warm up all ``works``, then run them ``rounds`` times alternately; return the shortest time of each.

    Alternating spreads disturbances by other programs over all of them. For work on one thread use
    ``time.thread_time``, which counts only its processor time.
    """
    for work in works if warm_up else ():
        work()
    times = [[seconds(work, clock) for work in works] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def run_command(folder: Path, *command: str) -> tuple[float, float, str]:
    """Run a command, which must succeed; return its wall time and processor time in seconds, and its output."""
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": path,
        "DVC_NO_ANALYTICS": "1",
    }
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise RuntimeError(f"{command}: {process.stdout}{process.stderr}")
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, process.stdout
