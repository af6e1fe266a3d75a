"""Measure time and peak memory of the statistics stages on a million rows, each stage in a separate process.

`python -m benchmarks.scale [--rows N] [--folder FOLDER]` writes two domains of N random rows × 768 in three views, 345
classes in 15 tasks (DomainNet's), directly into stores, shard by shard. It then runs source, adapt and evaluate at
D = 1000 with one seed. At N = 1,000,000 the stores take 9.5 GB of disk. It prints one Markdown table and fails if a
stage needs more than 4 GB.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.imported_project import STATISTICS, VIEWS, ImportedProject, default_params
from pipeline import paths
from pipeline.datasets.manifest_files import ImageRow, Manifest, rows_digest, write_manifest
from pipeline.datasets.task_files import ClassRow, Tasks, write_tasks
from pipeline.datasets.tasks import choose_test_images
from pipeline.store.embedding_store import SHARD_ROWS, EmbeddedView, write_embeddings
from pipeline.store.prompt_store import Prompts, write_prompts

CLASSES, PER_TASK, WIDTH, CLIP_WIDTH = 345, 23, 768, 64
LIMIT = 4 * 10**9  # maximum memory of a stage, in bytes

Rows = npt.NDArray[np.float16]


def write_domain(folder: Path, name: str, rows: int, number: int) -> None:
    """Write the manifest, embeddings by both models and prompts of a domain of fake images.

    Rows are scattered around class centres. Rows of a class are adjacent, as in every manifest.
    """
    labels = np.arange(rows) * CLASSES // rows
    names = [f"c{c:04d}" for c in range(CLASSES)]
    files = [f"data/{name}/{names[c]}/{i:07d}.jpg" for i, c in enumerate(labels)]
    digests = [hashlib.sha256(file.encode()).hexdigest() for file in files]
    manifest = Manifest(
        images=[ImageRow(file, digest, 0, 0) for file, digest in zip(files, digests, strict=True)],
        labels=[names[c] for c in labels],
        class_names=names,
        report={"domain": name, "images": rows},
    )
    write_manifest(manifest, folder / paths.manifest(name))
    test = choose_test_images(name, 0, manifest.labels, digests, test_fraction=0.1)
    classes = [ClassRow(c, class_name, c // PER_TASK) for c, class_name in enumerate(names)]
    write_tasks(Tasks(labels // PER_TASK, (0,), test[:, None]), classes, folder / paths.manifest(name))

    def view(index: int, width: int, spread: float) -> EmbeddedView:
        shards = random_shards(labels, number, index, width, spread)
        return EmbeddedView(rows, width, "float16", {}, shards)

    provenance = {"domain": name, "rows_digest": rows_digest(digests)}
    vision = {view_name: view(i, WIDTH, 6.0) for i, view_name in enumerate(VIEWS)}
    write_embeddings(folder / paths.embeddings(name, "vit"), vision, provenance)
    clip = {"original": view(0, CLIP_WIDTH, 2.0)}
    write_embeddings(folder / paths.embeddings(name, "clip"), clip, provenance)
    text = np.random.default_rng(0).standard_normal((CLASSES, CLIP_WIDTH), np.float32)
    text /= np.linalg.norm(text, axis=1, keepdims=True)
    write_prompts(folder / paths.prompts(name), Prompts(text, 30.0, {"classes": names, "domain": name}))


def random_shards(labels: npt.NDArray[np.int64], domain: int, view: int, width: int, spread: float) -> Iterator[Rows]:
    """Yield the rows of a view, which are those of the original plus a little noise."""
    centres = np.random.default_rng(0).standard_normal((CLASSES, width), np.float32)
    shift = np.random.default_rng((1, domain)).standard_normal(width).astype(np.float32)
    for start in range(0, len(labels), SHARD_ROWS):
        part = labels[start : start + SHARD_ROWS]
        noise = np.random.default_rng((2, domain, start)).standard_normal((len(part), width), np.float32)
        noise += 0.1 * np.roll(noise, 7 * view, axis=0)
        yield (centres[part] + 0.3 * shift + spread * noise).astype(np.float16)


def run(folder: Path, rows: int, **sections: object) -> dict[str, tuple[float, int]]:
    """Write the project if it does not exist; return seconds and peak bytes of every stage."""
    project = ImportedProject(folder)
    folder.mkdir(parents=True, exist_ok=True)
    project.set(default_params(PER_TASK) | sections)
    for number, name in enumerate(("a", "b")):
        if not (folder / paths.prompts(name)).is_dir():
            # in a separate process, because a child's peak includes the memory of the process it was forked from
            arguments = (folder, name, rows, number)
            writer = multiprocessing.get_context("spawn").Process(target=write_domain, args=arguments)
            writer.start()
            writer.join()
            if writer.exitcode:
                raise SystemExit(f"domain {name} was not written")
    measured = {}
    for stage, key in STATISTICS:
        seconds, peak = measured[stage] = project.run(stage, key)
        print(f"{stage}: {seconds:.0f} s, {peak / 1e9:.2f} GB", file=sys.stderr, flush=True)
    return measured


def main(argv: list[str] | None = None) -> int:
    """Run the stages and print the table; return 1 if a stage took too much memory."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="keep and reuse this folder; default: a temporary one")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="referee-scale-") as temporary:
        folder = args.folder or Path(temporary)
        measured = run(folder, args.rows)
        figures = json.loads((folder / paths.evaluation("toy", "a-b")).read_text())
    print(f"| stage, {args.rows:,} rows | seconds | peak memory |\n|---|---:|---:|")
    for stage, (seconds, peak) in measured.items():
        print(f"| `{stage}` | {seconds:.0f} | {peak / 1e9:.2f} GB |")
    print(f"\nA_T {figures['A_T']}, source only {figures['source_only_A_T']}")
    return 0 if all(peak <= LIMIT for _, peak in measured.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
