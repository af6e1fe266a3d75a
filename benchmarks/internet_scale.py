"""Extrapolate the cost of a billion images from measurements on small samples.

`python -m benchmarks.internet_scale [--images 1e9] [--rate 1000] [--workers 64]` measures sizes and speeds (about a
minute) and prints a Markdown table with the arithmetic.
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
from pipeline.encoders.image_decoding import image_facts
from pipeline.method.class_statistics import zeros
from pipeline.method.random_fourier_features import deviations, draw_basis
from pipeline.store.embedding_store import SHARD_ROWS, EmbeddedView, write_embeddings
from pipeline.store.progress_log import ProgressLog

WIDTH, VIEWS, D = 768, 3, 6000
HOUR = 3600.0

Figures = dict[str, float]  # quantities per image, row, file or second


def stores(folder: Path) -> Figures:
    """Measure sizes, memory and speed of writing 65,536 rows to a log and from there to a store."""
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

        view = EmbeddedView(n, WIDTH, "float16", {}, shards())
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
    """Measure the memory of a manifest of 40,000 images."""
    project = ImportedProject(folder)
    project.write(source=40_000, target=100, classes=40, per_task=8, width=64)
    project.run("manifest", "a")
    tracemalloc.start()
    images = read_images(folder / "cache" / "manifests" / "a")
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {"manifest_memory": memory / len(images)}


def hashing(folder: Path) -> Figures:
    """Time hashing of photos by `manifest`'s code, of bytes by MD5 as in DVC, and of many files by DVC itself."""
    photos = [image.path for image in write_photos(folder / "photos", 40)]
    reading = seconds(lambda: [image_facts(photo) for photo in photos])
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
    """Time listing 10,000 images of a tar file by their headers."""
    write_tars(folder / "tar", photos(SHARD))
    return {"tar_listed": SHARD / seconds(lambda: find_in(folder / "tar"), CPU)}


def statistics() -> Figures:
    """Time mapping 4,096 rows to D = 6000 features and accumulating their scatter, on one thread."""
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((4096, WIDTH), dtype=np.float32), rng.integers(0, 10, 4096)
    basis, total = draw_basis(WIDTH, D, 1e-4, "gamma", 0), zeros(10, D)
    with threadpool_limits(limits=1):
        start = time.process_time()
        for part in (slice(2048), slice(2048, 4096)):
            total.update(deviations(basis, x[part]), labels[part])
        return {"statistic_rows": len(x) / (time.process_time() - start)}


def measure() -> Figures:
    """Return all measured figures."""
    with tempfile.TemporaryDirectory() as name:
        parts = [part(Path(name) / part.__name__) for part in (stores, manifests, hashing, shards)]
        return {key: value for part in (*parts, statistics()) for key, value in part.items()}


def plan(f: Figures, n: float, rate: float, workers: int) -> list[tuple[str, str, str]]:
    """Return rows (quantity, calculation, result) for ``n`` images."""
    rows = n * VIEWS
    store, log = rows * f["row_bytes"], rows * f["log_bytes"]
    photos = f"{f['photos_hashed']:.0f} photos/s and core ({f['photo_bytes'] / 1e3:.0f} kB each)"
    md5 = f"{f['md5_bytes'] / 1e6:.0f} MB/s"
    per_file, content = f["dvc_file_seconds"], n * f["photo_bytes"] / f["md5_bytes"]
    files, tars = ((count * per_file + content) / HOUR for count in (n, n / SHARD))
    one_pass = rows / f["statistic_rows"] / HOUR
    return [
        ("DVC hashes images in single files", f"{per_file * 1e3:.2f} ms per file + {md5}", f"{files:,.0f} h"),
        (f"DVC hashes images in shards of {SHARD:,}", f"the same, {n / SHARD:,.0f} files", f"{tars:,.0f} h"),
        ("DVC hashes the embeddings", md5, f"{store / f['md5_bytes'] / HOUR:.0f} h"),
        ("headers of tar shards", f"{f['tar_listed']:,.0f} images/s", f"{n / f['tar_listed'] / HOUR:.0f} h"),
        ("`manifest` reads and hashes", photos, f"{n / f['photos_hashed'] / HOUR:,.0f} core-hours"),
        ("forward passes", f"{workers} workers × {rate:g} images/s", f"{n / (workers * rate) / HOUR:.0f} h"),
        ("embeddings", f"{VIEWS} views × {f['row_bytes']:.0f} B", f"{store / 1e12:.1f} TB"),
        ("their shard files", f"{SHARD_ROWS:,} rows each", f"{VIEWS * -(-n // SHARD_ROWS):,.0f}"),
        ("progress log", f"{VIEWS} × {f['log_bytes']:.0f} B", f"{log / 1e12:.1f} TB more, until removed"),
        ("log to store, one process", f"{f['writer_rows']:,.0f} rows/s", f"{rows / f['writer_rows'] / HOUR:.0f} h"),
        ("index of the log in memory", f"{VIEWS} × {f['log_memory']:.0f} B", f"{rows * f['log_memory'] / 1e9:.0f} GB"),
        ("images.csv in memory", f"{f['manifest_memory']:.0f} B", f"{n * f['manifest_memory'] / 1e9:.0f} GB"),
        (f"one pass of statistics, D = {D}, one seed", f"{f['statistic_rows']:,.0f} rows/s and core",
         f"{one_pass:,.0f} core-hours"),
        ("D×D scatter", f"{D}² × 8 B", f"{D * D * 8 / 1e6:.0f} MB, whatever the number of images"),
        ("tasks of 5 s", f"{workers} workers", f"{workers / 5:.0f}/s"),
    ]  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.internet_scale")
    parser.add_argument("--images", type=float, default=1e9)
    parser.add_argument("--rate", type=float, default=1000.0, help="images/s of one worker")
    parser.add_argument("--workers", type=int, default=64)
    args = parser.parse_args(argv)
    print("| what | measured or given | in all |\n|---|---|---|")
    for row in plan(measure(), args.images, args.rate, args.workers):
        print(f"| {' | '.join(row)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
