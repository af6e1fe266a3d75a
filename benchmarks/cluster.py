"""What a cluster's coordination costs: workers that sleep like a GPU, and everything else as `embed` does it.

`python -m benchmarks.cluster [--workers 1,2,4] [--rate 1000] [--seconds 40] [--draw FILE]` starts a scheduler
and workers as processes. A worker sleeps for as long as a GPU of that many images/s would compute and returns rows of
the real size (3 views of 768 float16); handing out, fetching and the progress log are the real ones. Then the same
without sleep: the most that one writing process can take.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.row import Row, at_least
from pipeline.execution.cluster import Cluster, connected
from pipeline.execution.extraction import Batch, Picture
from pipeline.stages.embed_block import BlockRows
from pipeline.stages.embed_on_cluster import embed_on_cluster
from pipeline.store.progress_log import ProgressLog

ROOT = Path(__file__).resolve().parents[1]
VIEWS, WIDTH, ROWS = ("original", "zeros", "rand"), 768, 64
DASK = str(Path(sys.executable).with_name("dask"))


def sleep_like_a_gpu(rate: float, block: Batch) -> BlockRows:
    """Take as long as a GPU of ``rate`` images/s; return rows that no network can compress."""
    began = time.perf_counter()
    made = []
    for start in range(0, len(block.pictures), ROWS):
        digests = block.digests[start : start + ROWS]
        noise = np.frombuffer(os.urandom(2 * len(digests) * WIDTH), np.uint16)
        rows = (noise % 30000).astype(np.uint16).view(np.float16).reshape(-1, WIDTH)
        made.append((digests, dict.fromkeys(block.views, rows)))
    if rate:
        time.sleep(max(0.0, len(block.pictures) / rate - (time.perf_counter() - began)))
    return BlockRows(made, "sleep", time.perf_counter() - began)


@contextlib.contextmanager
def workers_started(count: int) -> Iterator[tuple[Cluster, Path]]:
    """A cluster of so many worker processes, and a folder to write in."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        file, scratch = Path(folder, "scheduler.json"), Path(folder, ".referee", "scratch")
        common = ["--no-dashboard", "--scheduler-file", str(file)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

        def start(*command: str) -> None:
            silent = subprocess.DEVNULL
            process = subprocess.Popen(
                [*command, *common], stdout=silent, stderr=silent, env=environment, cwd=folder
            )
            stack.callback(process.wait)
            stack.callback(process.kill)

        start(DASK, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-show")
        while not file.exists():
            time.sleep(0.1)
        time.sleep(0.2)
        for _ in range(count):
            start(DASK, "worker", "--nthreads", "1", "--no-nanny", "--memory-limit", "0")
        address = json.loads(file.read_text())["address"]
        with connected(address, scratch) as cluster:
            while cluster.threads() < count:
                time.sleep(0.2)
            cluster.each(partial(sleep_like_a_gpu, 0.0), [batch(0)] * 8 * count)  # imports
            yield cluster, Path(folder)


def batch(number: int) -> Batch:
    """The number-th batch of images that are nowhere."""
    first = number * ROWS
    pictures = [
        Picture(Path(f"data/domain/class/{i:012d}.jpg"), i.to_bytes(32, "big"))
        for i in range(first, first + ROWS)
    ]
    return Batch(tuple(pictures), VIEWS)


def images_per_second(cluster: Cluster, folder: Path, images: int, rate: float) -> float:
    """Embed so many images as `embed` would; return how many came to the log in a second."""
    batches = [batch(number) for number in range(images // ROWS)]
    name = f"run-{time.monotonic_ns()}"
    with contextlib.ExitStack() as stack:
        logs = {
            view: stack.enter_context(
                ProgressLog(folder / view, name, width=WIDTH, dtype=np.float16)
            )
            for view in VIEWS
        }

        def record(digests: list[bytes], embedded: object) -> None:
            for view, rows in embedded.items():  # type: ignore[attr-defined]
                logs[view].append(digests, rows)

        began = time.perf_counter()
        embed_on_cluster(cluster, partial(sleep_like_a_gpu, rate), batches, record)
        elapsed = time.perf_counter() - began
        assert all(len(log) == ROWS * len(batches) for log in logs.values())
    return ROWS * len(batches) / elapsed


def empty_tasks_per_second(cluster: Cluster, tasks: int) -> float:
    """Return how many tasks that do nothing the scheduler takes and gives back in a second."""
    began = time.perf_counter()
    cluster.each(_nothing, range(tasks))
    return tasks / (time.perf_counter() - began)


def _nothing(_item: int) -> None:
    return None


def measure(counts: Sequence[int], rate: float, seconds: float) -> dict[int, float]:
    """Return images/s for each number of workers, each given work for about so many seconds."""
    found = {}
    for count in counts:
        with workers_started(count) as (cluster, folder):
            found[count] = images_per_second(cluster, folder, int(rate * count * seconds), rate)
            share = found[count] / (rate * count)
            print(
                f"{count} workers: {found[count]:7.0f} images/s, {share:.1%} of {count} × {rate:g}"
            )
    return found


def rows(*, quick: bool) -> list[Row]:
    """For the table of benchmarks."""
    rate = 1000.0
    found = measure((4,), rate, 5 if quick else 30)
    return [
        at_least(
            "images/s of 4 workers that sleep like GPUs",
            found[4] / (4 * rate),
            "4 × one such GPU without coordination",
            0.9,
            f"{found[4]:.0f} of {4 * rate:.0f} images/s",
        )
    ]


def draw(found: dict[int, float], rate: float, path: Path) -> None:
    """Draw images/s over workers beside the line of no cost."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(list(found), [rate * n for n in found], "--", color="0.6", label="no cost at all")
    axes.plot(list(found), list(found.values()), "o-", label="measured")
    axes.set(
        xlabel="workers",
        ylabel="images/s",
        title=f"workers that sleep like a GPU of {rate:g} images/s",
    )
    axes.set_xticks(list(found))
    axes.set_ylim(0)
    axes.legend()
    figure.savefig(path, dpi=110)


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--rate", type=float, default=1000.0, help="images/s of one worker")
    parser.add_argument("--seconds", type=float, default=40.0, help="of work for each run")
    parser.add_argument("--draw", type=Path)
    args = parser.parse_args(argv)
    found = measure([int(n) for n in args.workers.split(",")], args.rate, args.seconds)
    with workers_started(2) as (cluster, folder):
        ceiling = images_per_second(cluster, folder, 65_536, 0.0)
        print(
            f"2 workers without sleep: {ceiling:.0f} images/s: the most that one writer takes here"
        )
        print(f"empty tasks: {empty_tasks_per_second(cluster, 2000):.0f}/s")
    if args.draw:
        draw(found, args.rate, args.draw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
