"""Measure the cost of coordinating a cluster, with workers that sleep instead of computing on a GPU.

`python -m benchmarks.cluster [--workers 1,2,4] [--rate 1000] [--seconds 40] [--draw FILE]` starts a scheduler and
workers as processes. A worker sleeps as long as a GPU with that many images/s would compute, and returns rows of the
real size (3 views of 768 float16). Blocks are distributed, collected and logged by the code of `embed`. A run without
sleep then measures the maximum rate of one writing process.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import psutil
from distributed import SubprocessCluster

from pipeline.extraction.cluster import Cluster, connected
from pipeline.extraction.embed_on_cluster import BlockRows, BlockSizes
from pipeline.extraction.image_embedder import Batch, plan_batches
from pipeline.extraction.images import Image
from pipeline.store.progress_log import ProgressLog

ROOT = Path(__file__).resolve().parents[1]
VIEWS, WIDTH, ROWS = ("original", "zeros", "rand"), 768, 64
WITHOUT_SLEEP = 131_072  # images in the run without sleep
TASKS = 1000  # tasks that do nothing


def sleep_like_a_gpu(rate: float, block: Batch) -> BlockRows:
    """Take as long as a GPU with ``rate`` images/s (0: no sleep), and return as many bytes."""
    start = time.perf_counter()
    n = len(block.images)
    noise = np.frombuffer(os.urandom(2 * WIDTH), np.uint16) % 30000
    rows = np.tile(noise, (n, 1)).astype(np.uint16).view(np.float16)
    if rate:
        time.sleep(max(0.0, n / rate - (time.perf_counter() - start)))
    return BlockRows(dict.fromkeys(block.views, rows), "sleep", time.perf_counter() - start)


@contextlib.contextmanager
def started_cluster(workers: int) -> Iterator[tuple[Cluster, Path, list[int]]]:
    """Start a cluster; yield it, a folder to write in, and the process ids of the scheduler and the workers."""
    os.environ |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with (
        tempfile.TemporaryDirectory() as folder,
        SubprocessCluster(
            n_workers=workers,
            threads_per_worker=1,
            worker_class="distributed.Worker",
            worker_kwargs={"memory_limit": 0, "local_directory": folder},
            dashboard_address=None,
        ) as dask,
        connected(dask.scheduler_address, Path(folder, ".referee", "scratch")) as cluster,
    ):
        while cluster.threads() < workers:
            time.sleep(0.2)
        cluster.map(partial(sleep_like_a_gpu, 0.0), batches_of(ROWS) * 8 * workers)  # make workers import modules
        yield cluster, Path(folder), [node.process.pid for node in (dask.scheduler, *dask.workers.values())]


def batches_of(images: int) -> list[Batch]:
    """Return full batches of at most a given number of fake images."""
    names = (f"data/domain/class/{i:012d}.jpg" for i in range(images - images % ROWS))
    return plan_batches((Image(Path(name), i.to_bytes(32, "big")) for i, name in enumerate(names)), VIEWS, ROWS)


def images_per_second(cluster: Cluster, folder: Path, batches: Sequence[Batch], rate: float) -> float:
    """Distribute the batches as `embed_on_cluster` does; return how many images per second were logged."""
    name = f"run-{time.monotonic_ns()}"
    with contextlib.ExitStack() as stack:
        logs = {
            view: stack.enter_context(ProgressLog(folder / view, name, width=WIDTH, dtype=np.float16)) for view in VIEWS
        }
        start = time.perf_counter()
        blocks = BlockSizes(batches, cluster.threads)
        for block, result in cluster.collect(partial(sleep_like_a_gpu, rate), blocks):
            for view, rows in result.rows.items():
                logs[view].append(block.digests, rows)
            blocks.learn(len(block.images), result.seconds)
        elapsed = time.perf_counter() - start
        assert all(len(log) == ROWS * len(batches) for log in logs.values())
    return ROWS * len(batches) / elapsed


def _nothing(_item: int) -> None:
    return None


def cpu_seconds(ids: Sequence[int]) -> float:
    """Return the total processor time of some processes."""
    times = [psutil.Process(pid).cpu_times() for pid in ids]
    return float(sum(time.user + time.system for time in times))


def print_costs() -> None:
    """Print the processor time that each process spends per image and per task; other programs hardly affect it."""
    batches = batches_of(WITHOUT_SLEEP)
    with started_cluster(2) as (cluster, folder, (scheduler, *workers)):
        processes = {"writer": [os.getpid()], "scheduler": [scheduler], "workers": workers}
        before = {name: cpu_seconds(ids) for name, ids in processes.items()}
        ceiling = images_per_second(cluster, folder, batches, 0.0)
        print(f"2 workers without sleep: {ceiling:.0f} images/s")
        for name, ids in processes.items():
            micro = 1e6 * (cpu_seconds(ids) - before[name]) / WITHOUT_SLEEP
            print(f"CPU per image, {name}: {micro:.0f} µs: at most {1e6 / micro:,.0f} images/s per core")
        cpu, start = cpu_seconds([scheduler]), time.perf_counter()
        cluster.map(_nothing, range(TASKS))
        rate = TASKS / (time.perf_counter() - start)
        milliseconds = 1e3 * (cpu_seconds([scheduler]) - cpu) / TASKS
        print(f"empty tasks: {rate:.0f}/s; CPU of the scheduler {milliseconds:.2f} ms each")


def measure(counts: Sequence[int], rate: float, seconds: float) -> dict[int, float]:
    """Return images/s for each number of workers, with work for about the given number of seconds."""
    measured = {}
    for count in counts:
        with started_cluster(count) as (cluster, folder, _):
            batches = batches_of(int(rate * count * seconds))
            measured[count] = images_per_second(cluster, folder, batches, rate)
        share = f"{measured[count] / (rate * count):.1%} of {count} × {rate:g}"
        print(f"{count} workers: {measured[count]:7.0f} images/s, {share}")
    return measured


def draw(measured: dict[int, float], rate: float, path: Path) -> None:
    """Draw images/s over workers, and a line for coordination without cost."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    counts = list(measured)
    axes.plot(counts, [rate * n for n in counts], "--", color="0.6", label="no cost at all")
    axes.plot(counts, list(measured.values()), "o-", label="measured")
    title = f"workers that sleep like a GPU of {rate:g} images/s"
    axes.set(xlabel="workers", ylabel="images/s", title=title)
    axes.set_xticks(counts)
    axes.set_ylim(0)
    axes.legend()
    figure.savefig(path, dpi=110)


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--rate", type=float, default=1000.0, help="images/s of one worker")
    parser.add_argument("--seconds", type=float, default=40.0, help="duration of each run")
    parser.add_argument("--draw", type=Path)
    args = parser.parse_args(argv)
    measured = measure([int(n) for n in args.workers.split(",")], args.rate, args.seconds)
    print_costs()
    if args.draw:
        draw(measured, args.rate, args.draw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
