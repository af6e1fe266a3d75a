"""Where the time of one problem goes: the shares of its parts, as a table. `python -m benchmarks.where_time_goes`.

Processor time of one thread, so that other work on the machine does not show; one problem of Office-31's size.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from dataclasses import replace

from threadpoolctl import threadpool_limits

from benchmarks.office31_sized import WIDTH, made_up
from pipeline.comparison.referee_variants import run_variant
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.variants import variant

# a part and the functions whose own time, with what they call, is its; the first that matches outermost counts
PARTS = {
    "map to Fourier features, eq. (7)": ("random_fourier_features.py", "deviation"),
    "scatter of the rows, eqs. (10), (17)": ("scatter_products.py", "add_product"),
    "Cholesky factors": ("_decomp_cholesky.py", "_cholesky"),
    "triangular solves, eq. (11)": ("_basic.py", "solve_triangular"),
    "solves with a factor, eq. (11)": ("_decomp_cholesky.py", "cho_solve"),
    "rounds of relabelling": ("relabelling.py", "scores"),
    "factor that grows by rows": ("row_scatter.py", "grown"),
}
INSIDE = {  # parts that contain others; taken off, so that shares add up
    "factor that grows by rows": ("Cholesky factors", "triangular solves, eq. (11)"),
}


def shares(name: str, D: int) -> tuple[float, dict[str, float]]:
    """Return the seconds of a variant at ``D``, and those of its parts."""
    problem = made_up(draw_basis(WIDTH, D, 1e-4, "gamma", 0))
    run_variant(replace(problem, _shared={}), variant(name))  # warm
    profile = cProfile.Profile(time.process_time)
    with threadpool_limits(1):
        profile.runcall(run_variant, replace(problem, _shared={}), variant(name))
    stats = pstats.Stats(profile)
    cumulative = {
        (key[0].rsplit("/", 1)[-1], key[2]): value[3]
        for key, value in stats.stats.items()  # type: ignore[attr-defined]
    }
    parts = {part: cumulative.get(key, 0.0) for part, key in PARTS.items()}
    for outer, inner in INSIDE.items():
        if parts[outer]:
            parts[outer] = max(0.0, parts[outer] - sum(parts[part] for part in inner))
    return stats.total_tt, parts  # type: ignore[attr-defined]


def main() -> None:
    """Print a table: a column per variant and D, a row per part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="D = 500 and 1000")
    widths = (500, 1000) if parser.parse_args().quick else (2000, 6000)
    runs = [(name, D) for name in ("calibrated", "released") for D in widths]
    found = [shares(name, D) for name, D in runs]
    print(f"| part | {' | '.join(f'{name}, D={D}' for name, D in runs)} |")
    print(f"|---|{'---:|' * len(runs)}")
    for part in PARTS:
        cells = (f"{parts[part] / total:.0%}" for total, parts in found)
        print(f"| {part} | {' | '.join(cells)} |")
    rest = (f"{1 - sum(parts.values()) / total:.0%}" for total, parts in found)
    print(f"| the rest: copies, sums, labels, fusion, prediction | {' | '.join(rest)} |")
    print(f"| processor seconds, one thread | {' | '.join(f'{t:.1f}' for t, _ in found)} |")


if __name__ == "__main__":
    main()
