"""Measure several things in turns: whatever else the machine does then disturbs all of them."""

from __future__ import annotations

import time
from collections.abc import Callable

Work = Callable[[], object]


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

    For work on one thread, ``time.thread_time`` counts only what the processor spent on it.
    """
    for work in works if warm_up else ():
        work()
    times = [[seconds(work, clock) for work in works] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]
