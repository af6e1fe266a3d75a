"""What a billion images would take, worked out from what is measured here, and what breaks first.

`python -m benchmarks.internet_scale [--images 1e9] [--rate 1000] [--workers 64]` measures sizes and speeds on small
samples (about a minute) and prints a Markdown table with the arithmetic.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.images import write_photos
from benchmarks.imported_project import ImportedProject
from benchmarks.measure import run_command, seconds
from benchmarks.shards import CPU, SHARD, photos, write_tars
from pipeline.datasets.manifest_files import read_images
from pipeline.datasets.sources.choose import find_in
from pipeline.encoders.image_decoding import read_image
from pipeline.method.class_statistics import zeros
from pipeline.method.random_fourier_features import deviations, draw_basis
from pipeline.store.embedding_store import SHARD_ROWS, ViewRows, write_embeddings
from pipeline.store.progress_log import ProgressLog

WIDTH, VIEWS, D = 768, 3, 6000
PASSES = 4  # over the target's rows in `adapt`, variant calibrated
HOUR = 3600.0

Figures = dict[str, float]  # per image, row, file or second


def stores(folder: Path) -> Figures:
    """Write 65,536 rows to a log and from it to a store."""
    n = 2 * SHARD_ROWS
    rows = np.random.default_rng(0).standard_normal((n, WIDTH)).astype(np.float16)
    digests = [i.to_bytes(32, "big") for i in range(n)]
    tracemalloc.start()
    with ProgressLog(folder / "log", "w", width=WIDTH, dtype=np.float16) as log:
        for start in range(0, n, 64):
            log.append(digests[start : start + 64], rows[start : start + 64])
        memory = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()

        def shards() -> Iterator[np.ndarray]:
            for start in range(0, n, SHARD_ROWS):
                yield log.gather(digests[start : start + SHARD_ROWS])

        view = ViewRows(n, WIDTH, "float16", {}, shards())
        elapsed = seconds(lambda: write_embeddings(folder / "store.zarr", {"original": view}, {}))
    return {
        "row_bytes": _bytes(folder / "store.zarr") / n,
        "log_bytes": _bytes(folder / "log") / n,
        "log_memory": memory / n,
        "writer_rows": n / elapsed,
    }


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def manifests(folder: Path) -> Figures:
    """Write a manifest of 40,000 images with 5 seeds; weigh it and read it."""
    project = ImportedProject(folder)
    seeds = {"seeds": [0, 1, 2, 3, 4], "test_fraction": 0.1}
    project.write(source=40_000, target=100, classes=40, per_task=8, width=64, data=seeds)
    project.run("manifest", "a")
    project.run("order", "a")
    project.run("tasks", "a")
    written = folder / "cache" / "manifests" / "a"
    tracemalloc.start()
    images = read_images(written)
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    elapsed = seconds(lambda: read_images(written))
    sizes = [(written / name / f"{name}.csv").stat().st_size for name in ("images", "tasks", "labels")]
    return {
        "manifest_bytes": sum(sizes) / len(images),
        "manifest_memory": memory / len(images),
        "manifest_rows": len(images) / elapsed,
    }


def hashing(folder: Path) -> Figures:
    """Read and hash photos as `manifest` does, bytes as DVC does, and many files with DVC itself."""
    photos = [image.path for image in write_photos(folder / "photos", 40)]
    reading = seconds(lambda: [read_image(photo) for photo in photos])
    block = os.urandom(64 * 2**20)
    md5 = seconds(lambda: hashlib.md5(block).hexdigest())  # noqa: S324
    repository = folder / "repository"
    for name, count in (("few", 1), ("many", 2000)):
        (repository / name).mkdir(parents=True)
        for i in range(count):
            (repository / name / f"{i}.bin").write_bytes(i.to_bytes(8, "big"))
    run_command(repository, "dvc", "init", "--no-scm", "--quiet")
    few, many = (run_command(repository, "dvc", "add", name, "--quiet")[0] for name in ("few", "many"))
    return {
        "photo_bytes": sum(photo.stat().st_size for photo in photos) / len(photos),
        "photos_hashed": len(photos) / reading,
        "md5_bytes": len(block) / md5,
        "dvc_file_seconds": max(0.0, many - few) / 2000,
    }


def shards(folder: Path) -> Figures:
    """List 10,000 images of a tar file by their headers."""
    write_tars(folder / "tar", photos(SHARD))
    return {"tar_listed": SHARD / seconds(lambda: find_in(folder / "tar"), CPU)}


def statistics() -> Figures:
    """Map 4,096 rows to D = 6000 features and add up their scatter, one thread."""
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((4096, WIDTH), dtype=np.float32), rng.integers(0, 10, 4096)
    basis, total = draw_basis(WIDTH, D, 1e-4, "gamma", 0), zeros(10, D)
    with threadpool_limits(limits=1):
        began = time.process_time()
        for part in (slice(2048), slice(2048, 4096)):
            total.update(deviations(basis, x[part]), labels[part])
        return {"statistic_rows": len(x) / (time.process_time() - began)}


def measure() -> Figures:
    """Measure everything."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = (
            *(stores(folder / "a"), manifests(folder / "b"), hashing(folder / "c")),
            *(shards(folder / "d"), statistics()),
        )
        return {key: value for part in parts for key, value in part.items()}


def plan(f: Figures, n: float, rate: float, workers: int) -> list[tuple[str, str, str]]:
    """Return what, how it is worked out, and the result, for ``n`` images."""
    rows = n * VIEWS
    shards = VIEWS * -(-n // SHARD_ROWS)
    store = rows * f["row_bytes"]
    log, index = f["log_bytes"], f["log_memory"]
    csv, in_memory = f["manifest_bytes"], f["manifest_memory"]
    forward = n / (workers * rate) / HOUR
    photos = f"{f['photos_hashed']:.0f} photos/s and core ({f['photo_bytes'] / 1e3:.0f} kB each)"
    md5 = f"{f['md5_bytes'] / 1e6:.0f} MB/s"
    per_file = f["dvc_file_seconds"]
    content = n * f["photo_bytes"] / f["md5_bytes"]
    files, tars = ((count * per_file + content) / HOUR for count in (n, n / SHARD))
    one_pass = rows / f["statistic_rows"] / HOUR
    reading = f"{n / f['manifest_rows'] / HOUR:.1f} h, in each stage that does"
    return [
        ("embeddings", f"{VIEWS} views × {f['row_bytes']:.0f} B", f"{store / 1e12:.1f} TB"),
        ("shard files", f"{SHARD_ROWS:,} rows each", f"{shards:,.0f}"),
        ("progress log", f"{VIEWS} × {log:.0f} B", f"{rows * log / 1e12:.1f} TB more, until removed"),
        ("forward passes", f"{workers} workers × {rate:g} images/s", f"{forward:.0f} h"),
        ("log to store, one process", f"{f['writer_rows']:,.0f} rows/s", f"{rows / f['writer_rows'] / HOUR:.0f} h"),
        ("index of the log in memory", f"{VIEWS} × {index:.0f} B", f"{rows * index / 1e9:.0f} GB"),
        ("`manifest` reads and hashes", photos, f"{n / f['photos_hashed'] / HOUR:,.0f} core-hours"),
        ("images.csv, tasks.csv, labels.csv", f"{csv:.0f} B", f"{n * csv / 1e9:.0f} GB"),
        ("images.csv in memory", f"{in_memory:.0f} B", f"{n * in_memory / 1e9:.0f} GB"),
        ("reading images.csv", f"{f['manifest_rows']:,.0f} rows/s", reading),
        ("DVC hashes the embeddings", md5, f"{store / f['md5_bytes'] / HOUR:.0f} h"),
        ("DVC hashes images in single files", f"{per_file * 1e3:.2f} ms per file + {md5}", f"{files:,.0f} h"),
        (f"DVC hashes images in shards of {SHARD:,}", f"the same, {n / SHARD:,.0f} files", f"{tars:,.0f} h"),
        ("headers of tar shards", f"{f['tar_listed']:,.0f} images/s", f"{n / f['tar_listed'] / HOUR:.0f} h"),
        (f"one pass of statistics, D = {D}, one seed", f"{f['statistic_rows']:,.0f} rows/s and core",
         f"{one_pass:,.0f} core-hours"),
        (f"`adapt`, {PASSES} passes over the target's rows", "the same",
         f"{PASSES * one_pass / (64 * 32):.0f} h on 64 machines of 32 cores"),
        ("D×D scatter", f"{D}² × 8 B", f"{D * D * 8 / 1e6:.0f} MB, whatever the number of images"),
        ("tasks of 5 s", f"{workers} workers", f"{workers / 5:.0f}/s"),
    ]  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.internet_scale")
    parser.add_argument("--images", type=float, default=1e9)
    parser.add_argument("--rate", type=float, default=1000.0, help="images/s of a worker")
    parser.add_argument("--workers", type=int, default=64)
    args = parser.parse_args(argv)
    print("| what | measured or given | in all |\n|---|---|---|")
    for line in plan(measure(), args.images, args.rate, args.workers):
        print(f"| {' | '.join(line)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
