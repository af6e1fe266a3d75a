"""Print the share of each part in the time of one problem: `python -m benchmarks.where_time_goes`.

The problem has Office-31's size. Times are processor times of one thread, so that other programs hardly affect them.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time

from threadpoolctl import threadpool_limits

from benchmarks.office31_sized import random_seed
from pipeline.comparison.referee_variants import run_variant
from pipeline.method.variants import VARIANTS

# parts, and the function whose cumulative time is the time of the part
PARTS = {
    "map to Fourier features, eq. (7)": ("random_fourier_features.py", "deviations"),
    "scatter of the rows, eqs. (10), (17)": ("within_scatter.py", "add_product"),
    "directions that count": ("kernel_directions.py", "nested_directions"),
    "Cholesky factors": ("cholesky.py", "factor"),
    "forward solves, eq. (11)": ("cholesky.py", "forward"),
    "backward solves, eq. (11)": ("cholesky.py", "backward"),
    "rounds of relabelling": ("relabelling.py", "scores"),
    "factor that grows by rows": ("within_scatter.py", "grown"),
}
# parts contained in the last part, whose times are subtracted from it so that shares add up
INSIDE_THE_LAST = ("forward solves, eq. (11)",)


def shares(name: str, D: int) -> tuple[float, dict[str, float]]:
    """Return the seconds of a variant at ``D`` and of its parts."""
    seed = random_seed(D)
    run_variant(seed.with_basis(seed.basis), VARIANTS[name])  # warm up
    profile = cProfile.Profile(time.process_time)
    with threadpool_limits(1):
        profile.runcall(run_variant, seed, VARIANTS[name])
    stats = pstats.Stats(profile)
    cumulative = {
        (key[0].rsplit("/", 1)[-1], key[2]): value[3]
        for key, value in stats.stats.items()  # type: ignore[attr-defined]
    }
    parts = {part: cumulative.get(key, 0.0) for part, key in PARTS.items()}
    last = list(PARTS)[-1]
    if parts[last]:
        parts[last] = max(0.0, parts[last] - sum(parts[part] for part in INSIDE_THE_LAST))
    return stats.total_tt, parts  # type: ignore[attr-defined]


def main() -> None:
    """Print a table with a column per variant and D and a row per part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="D = 500 and 1000")
    widths = (500, 1000) if parser.parse_args().quick else (2000, 6000)
    columns = {f"{name}, D={D}": shares(name, D) for name in ("calibrated", "released") for D in widths}
    print(f"| part | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for part in PARTS:
        cells = (f"{parts[part] / total:.0%}" for total, parts in columns.values())
        print(f"| {part} | {' | '.join(cells)} |")
    rest = (f"{1 - sum(parts.values()) / total:.0%}" for total, parts in columns.values())
    print(f"| the rest: copies, sums, labels, fusion, prediction | {' | '.join(rest)} |")
    seconds = (f"{total:.1f}" for total, _ in columns.values())
    print(f"| processor seconds, one thread | {' | '.join(seconds)} |")


if __name__ == "__main__":
    main()
