"""Compare the speed of the statistics (one problem, its scatter, a sweep over D) with existing implementations.

Every row is a ratio of times from one process, each the best of several.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import released_algorithm
from benchmarks.measure import Row, at_least, at_most, best_in_turns
from benchmarks.office31_sized import CLASSES, TASKS, WIDTH, random_seed
from pipeline.comparison.referee_variants import kernel_basis, run_variant
from pipeline.comparison.sweep import swept_seed
from pipeline.extraction.executor import in_threads, keep_freed_memory
from pipeline.extraction.ordered_map import worker_count
from pipeline.method.class_statistics import zeros
from pipeline.method.random_fourier_features import deviations, draw_basis
from pipeline.method.variants import CALIBRATED, VARIANTS
from pipeline.method.within_scatter import ROWS, add_product
from pipeline.problem.seed import Seed

Result = TypeVar("Result")


def rows(quick: bool) -> list[Row]:
    """Measure all rows, on smaller problems if ``quick``."""
    return [
        *against_the_released_code(1000 if quick else 2000),
        against_scikit_learn(1500 if quick else 6000),
        *scatter(*((4096, 2000) if quick else (20_000, 6000))),
        sweep_over_D(2000 if quick else 6000),
        against_one_pseudo_inverse(1000 if quick else 6000),
        *(seeds_on_cores(D) for D in ((1000,) if quick else (2000, 6000))),
        seeds_on_cores(1000 if quick else 6000, count=1),
    ]


def without_cache(seed: Seed) -> Seed:
    """Return the same seed without any shared results."""
    return seed.with_basis(seed.basis)


def retried(
    baseline: Callable[[], Result], tries: int = 3, clock: Callable[[], float] = time.perf_counter
) -> tuple[Result, float, str]:
    """Run a baseline until it succeeds; return its result, its seconds, and a note about failed runs.

    The released code's pseudo-inverse uses LAPACK's divide and conquer SVD, which sometimes fails on a matrix that it
    decomposes in another run.
    """
    for failed in range(tries):
        start = clock()
        try:
            result = baseline()
        except RuntimeError as error:  # torch's LinAlgError
            last = error
            continue
        note = f"; the baseline's SVD did not converge in {failed} runs before" if failed else ""
        return result, clock() - start, note
    raise last


def against_the_released_code(D: int) -> list[Row]:
    """Time one problem: source fit, pseudo-labels, adaptation, evaluation after every task."""
    seed = random_seed(D)
    labels, source_rows = seed.source.labels, np.float64(seed.source.views["original"])
    source = [(source_rows[mask], labels[mask]) for mask in (np.isin(labels, classes) for classes in TASKS)]
    target = [(task.classes, [np.float64(x) for x in task.views.values()], task.cosines) for task in seed.target.tasks]
    test = (np.float64(seed.target.test.views["original"]), seed.target.test.cosines)
    omega, beta = np.float64(seed.basis.omega), np.float64(seed.basis.beta)
    expected, naive, note = retried(lambda: released_algorithm.run(source, target, test, omega, beta))
    predicted = run_variant(without_cache(seed), VARIANTS["released"])
    released, calibrated = best_in_turns(
        lambda: run_variant(without_cache(seed), VARIANTS["released"]),
        lambda: run_variant(without_cache(seed), CALIBRATED),
        rounds=4,
    )
    agreement = np.mean([np.mean(np.array(left) == right) for left, right in zip(expected, predicted, strict=True)])
    size = f"{CLASSES} classes, 5 tasks, 2,500 source and 700×3 target rows, D={D}"
    baseline = f"the released code's algorithm: {naive:.1f} s"
    return [
        Row(
            name=f"statistics of one problem, variant released ({size})",
            ratio=naive / released,
            baseline=baseline,
            target="≥ 100× faster, same predictions",
            met=naive / released >= 100 and agreement == 1.0,
            detail=f"{released:.2f} s; {agreement:.1%} of the predictions after every task are the same{note}",
        ),
        at_least(
            "the same, variant calibrated (3 rounds of relabelling, source views pooled)",
            naive / calibrated,
            baseline,
            100,
            f"{calibrated:.2f} s",
        ),
    ]


def against_scikit_learn(D: int) -> Row:
    """Compare with RBFSampler and LinearDiscriminantAnalysis, refitted to source and target after each task."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.kernel_approximation import RBFSampler

    seed = random_seed(D)
    tasks = seed.target.tasks
    x = np.vstack([view for task in tasks for view in task.views.values()])
    y = np.concatenate([np.tile(np.resize(task.classes, len(task)), 3) for task in tasks])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    sampler = RBFSampler(gamma=1e-4, n_components=D, random_state=0)
    model, note = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1), ""
    start = time.perf_counter()
    try:
        model.fit(sampler.fit_transform(unit), y)
    except np.linalg.LinAlgError as error:  # from lstsq, an SVD of a D×D matrix; happens at D = 6000
        note = f"; it ended without a result: {error}"
    one_fit = time.perf_counter() - start
    # all ten fits solve with a D×D matrix, so one is measured
    (calibrated,) = best_in_turns(lambda: run_variant(without_cache(seed), CALIBRATED), rounds=2)
    return at_least(
        f"statistics of one problem, D={D}",
        2 * len(TASKS) * one_fit / calibrated,
        f"scikit-learn RBFSampler + LDA(lsqr): 10 fits of {one_fit:.1f} s, one measured{note}",
        10,
        f"{calibrated:.2f} s, variant calibrated; exact under increments",
    )


def against_one_pseudo_inverse(D: int) -> Row:
    """Compare with the ten float64 pseudo-inverses of the released code at the published D, timing one of them.

    Times are processor times, because one pseudo-inverse takes minutes, during which other programs run as well.
    """
    import torch

    seed = random_seed(D)
    z = torch.from_numpy(deviations(seed.basis, seed.source.views["original"])).double()
    matrix = z.T @ z + 1e-6 * torch.eye(D, dtype=torch.float64)
    clock = time.process_time
    _, one_inverse, note = retried(lambda: torch.linalg.pinv(matrix), clock=clock)
    (calibrated,) = best_in_turns(lambda: run_variant(without_cache(seed), CALIBRATED), rounds=2, clock=clock)
    return at_least(
        f"statistics of one problem, variant calibrated, D={D}",
        2 * len(TASKS) * one_inverse / calibrated,
        f"the released code's 10 pseudo-inverses, one measured: {one_inverse:.1f} s of processor time{note}",
        100,
        f"{calibrated:.2f} s of processor time",
    )


def seeds_on_cores(D: int, count: int = 5) -> Row:
    """Compare seeds in one thread per core with the same seeds in one thread; a single seed has no goal."""
    seeds = [random_seed(D) for _ in range(count)]
    cores = worker_count(0)

    def run(workers: int) -> object:
        return in_threads(
            lambda index: run_variant(without_cache(seeds[index]), CALIBRATED),
            len(seeds),
            D=kernel_basis(seeds[0], CALIBRATED).width,
            workers=workers,
        )

    one_core, all_cores = best_in_turns(lambda: run(1), lambda: run(cores), rounds=2)
    row = at_least(
        f"{count} seed{'s' if count > 1 else ''} of one problem, calibrated, D={D}, on {cores} cores",
        one_core / all_cores,
        f"the same on one core: {one_core:.2f} s",
        0.8 * min(cores, count),
        f"{all_cores:.2f} s",
    )
    return row if count > 1 else replace(row, target="–", met=True)


def scatter(n: int, D: int) -> list[Row]:
    """Compare scatter accumulation, n×768 → D, with one float32 matmul ZᵀZ of that size."""
    import torch

    basis = draw_basis(WIDTH, D, 1e-4, "gamma", 0)
    x = np.random.default_rng(0).normal(size=(n, WIDTH)).astype(np.float32)
    blocks = [x[start : start + ROWS] for start in range(0, n, ROWS)]
    z = np.vstack([deviations(basis, block) for block in blocks])
    tensor, total = torch.from_numpy(z), zeros(1, D).scatter

    def map_and_add() -> None:
        for block in blocks:
            add_product(total, deviations(basis, block))

    works = (lambda: tensor.T @ tensor, lambda: add_product(total, z), map_and_add)
    matmul, accumulation, with_map = best_in_turns(*works, rounds=3)
    baseline = f"torch float32 ZᵀZ: {matmul:.2f} s"
    name, mapped_name = "scatter accumulation", "the same with the map to Fourier features"
    return [
        at_most(f"{name}, {n:,}×{WIDTH} → D={D}", accumulation / matmul, baseline, 0.65, f"{accumulation:.2f} s"),
        at_most(mapped_name, with_map / matmul, baseline, 1, f"{with_map:.2f} s"),
    ]


def run_sweep(opened: Seed, widths: Sequence[int]) -> None:
    """Run a seed at several values of D."""
    for D in widths:
        run_variant(swept_seed(opened, opened.basis.nested(D), opened.basis, widths), CALIBRATED)


def sweep_over_D(largest: int, parts: Sequence[float] = (1 / 24, 1 / 12, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 3 / 4, 1)) -> Row:
    """Compare a sweep over eight values of D with one run at the largest, in processor time."""
    widths = [int(largest * part) for part in parts]
    seed = random_seed(largest)
    keep_freed_memory()  # as the stages do
    with threadpool_limits(1):
        single, sweep = best_in_turns(
            lambda: run_variant(without_cache(seed), CALIBRATED),
            lambda: run_sweep(without_cache(seed), widths),
            rounds=2,
            clock=time.process_time,
        )
    baseline = f"one run at D={largest}: {single:.2f} s of processor time"
    return at_most(f"a sweep over D in {widths}", sweep / single, baseline, 1.5, f"{sweep:.2f} s")
