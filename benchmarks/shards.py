"""Compare small images in single files, tar files and Parquet files: listing, manifest, decoding, and DVC.

`python -m benchmarks.shards [--images 100000]` prints a Markdown table. Times are processor times, which other programs
hardly affect, unless marked "clock". Everything runs in one thread.
"""

from __future__ import annotations

import argparse
import io
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.measure import run_command, seconds
from pipeline.datasets.manifest import build
from pipeline.datasets.sources.choose import find_in
from pipeline.datasets.sources.source import FoundImages
from pipeline.encoders.image_decoding import decode, image_facts

CLASSES, SIDE, SHARD, GROUP = 10, 64, 10_000, 100
SAMPLE = 20_000  # number of images to decode
CPU = time.process_time
DVC_YAML = "stages:\n  list:\n    cmd: touch out\n    deps: [images]\n    outs: [out]\n"


def photos(count: int) -> list[tuple[str, bytes]]:
    """Return names and contents of JPEG files that differ by a number after the picture, which decoders ignore."""
    small = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(small).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(buffer, "jpeg")
    names = (f"class{i * CLASSES // count}/{i:07}.jpg" for i in range(count))
    return [(name, buffer.getvalue() + i.to_bytes(8, "big")) for i, name in enumerate(names)]


def write_files(folder: Path, images: list[tuple[str, bytes]]) -> None:
    """Write single files in class folders."""
    for name, data in images:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def write_tars(folder: Path, images: list[tuple[str, bytes]]) -> None:
    """Write tar files of 10,000 images."""
    folder.mkdir(parents=True)
    for start in range(0, len(images), SHARD):
        with tarfile.open(folder / f"{start // SHARD:04}.tar", "w") as tar:
            for name, data in images[start : start + SHARD]:
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))


def write_parquets(folder: Path, images: list[tuple[str, bytes]]) -> None:
    """Write Parquet files of 10,000 images in row groups of 100, as Hugging Face does."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for start in range(0, len(images), SHARD):
        part = images[start : start + SHARD]
        cells = [{"bytes": data, "path": name} for name, data in part]
        table = pa.table({"image": cells, "label": [name.partition("/")[0] for name, _ in part]})
        pq.write_table(table, folder / f"{start // SHARD:04}.parquet", row_group_size=GROUP)


def measure(folder: Path, count: int) -> list[str]:
    """Measure the images in ``folder/images`` and return their cells of the table."""
    images = folder / "images"
    results: list[FoundImages] = []
    finding = seconds(lambda: results.append(find_in(images)), CPU)
    (listed,) = results
    assert len(listed.images) == count
    sample = listed.images[:: max(1, count // SAMPLE)]
    decoding = seconds(lambda: [decode(image.path) for image in sample], CPU) / len(sample)
    settings = {"domain": "d", "folder": "images", "class_names": (), "read_facts": image_facts, "workers": 1}
    building = seconds(lambda: build(listed, **settings), CPU)
    (folder / "dvc.yaml").write_text(DVC_YAML)
    run_command(folder, "dvc", "init", "--no-scm", "--quiet")
    clock_first, first, _ = run_command(folder, "dvc", "repro", "--quiet")
    clock, status, _ = run_command(folder, "dvc", "status", "--quiet")
    return [
        f"{sum(1 for path in images.rglob('*') if path.is_file()):,}",
        f"{count / finding:,.0f}",
        f"{count / (finding + building):,.0f}",
        f"{1 / decoding:,.0f}",
        f"{first:.1f} s ({clock_first:.1f} s clock)",
        f"{status:.1f} s ({clock:.1f} s clock)",
    ]


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shards")
    parser.add_argument("--images", type=int, default=100_000)
    args = parser.parse_args(argv)
    images = photos(args.images)
    titles = ("images as", "files", "listed per s", "`manifest`, images/s", "decoded per s")
    print(f"| {' | '.join((*titles, '`dvc repro`, first', '`dvc status`'))} |\n|{'---|' * 7}")
    forms = {"single files": write_files, "tar": write_tars, "Parquet": write_parquets}
    for name, write in forms.items():
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder) / "images", images)
            print(f"| {' | '.join((name, *measure(Path(folder), len(images))))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
