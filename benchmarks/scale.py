"""A million rows through the statistics stages: time and peak memory of each, every stage a process of its own.

`python -m benchmarks.scale [--rows N] [--folder FOLDER]` writes two domains of N made-up rows × 768 in three views, 345
classes in 15 tasks (DomainNet's), straight into stores, shard by shard, and runs basis … evaluate at D = 1000 with
one seed. At N = 1,000,000 the stores take 9.5 GB of disk. It prints one Markdown table; a stage that needs more than
4 GB fails it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.imported_project import ImportedProject
from pipeline.datasets import manifest_files, splits
from pipeline.datasets.manifest_files import ClassRow, ImageRow, LabelRow, Manifest, Tasks
from pipeline.store.embedding_store import SHARD_ROWS, ViewRows, rows_digest, write_embeddings
from pipeline.store.prompt_store import Prompts, write_prompts

CLASSES, PER_TASK, WIDTH, CLIP_WIDTH, D = 345, 23, 768, 64, 1000
VIEWS = ("original", "zeros", "rand")
STAGES = (
    ("basis", "a"),
    ("source", "a"),
    ("pseudo_label", "a-b"),
    ("refine", "a-b"),
    ("adapt", "a-b"),
    ("evaluate", "a-b"),
)
LIMIT = 4 * 10**9  # bytes of any stage

Block = npt.NDArray[np.float16]


@dataclass(frozen=True)
class MadeUpDomain:
    """n rows about class centres; rows of a class lie side by side, as in every manifest."""

    name: str
    rows: int
    seed: int

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """The class (n,) of each row."""
        return np.arange(self.rows) * CLASSES // self.rows

    def shards(self, view: int, width: int, spread: float) -> Iterator[Block]:
        """Yield the rows of a view: those of the original, and a little noise of the view's own."""
        centres = np.random.default_rng(0).standard_normal((CLASSES, width), np.float32)
        shift = np.random.default_rng((1, self.seed)).standard_normal(width).astype(np.float32)
        for start in range(0, self.rows, SHARD_ROWS):
            labels = self.labels[start : start + SHARD_ROWS]
            rng = np.random.default_rng((2, self.seed, start))
            noise = rng.standard_normal((len(labels), width), np.float32)
            noise += 0.1 * np.roll(noise, 7 * view, axis=0)
            yield (centres[labels] + 0.3 * shift + spread * noise).astype(np.float16)

    def write(self, folder: Path) -> None:
        """Write manifest, embeddings of both models and prompts into ``folder``/cache."""
        made = self.manifest()
        manifest_files.write(made, folder / "cache/manifests" / self.name)
        about = {"domain": self.name, "rows_digest": rows_digest(i.sha256 for i in made.images)}
        stores = folder / "cache/embeddings" / self.name
        vision = {
            view: ViewRows(self.rows, WIDTH, "float16", {}, self.shards(i, WIDTH, 6.0))
            for i, view in enumerate(VIEWS)
        }
        write_embeddings(stores / "vit.zarr", vision, about)
        said = ViewRows(self.rows, CLIP_WIDTH, "float16", {}, self.shards(0, CLIP_WIDTH, 2.0))
        write_embeddings(stores / "clip.zarr", {"original": said}, about)
        text = np.random.default_rng(0).standard_normal((CLASSES, CLIP_WIDTH), np.float32)
        text /= np.linalg.norm(text, axis=1, keepdims=True)
        classes = [row.class_name for row in made.classes]
        prompts = Prompts(text, 30.0, {"classes": classes, "domain": self.name})
        write_prompts(folder / "cache/prompts" / f"{self.name}.zarr", prompts)

    def manifest(self) -> Manifest:
        """Return images that are nowhere, with tasks, one seed's split and labels."""
        names = [f"c{c:04d}" for c in range(CLASSES)]
        labels = self.labels
        paths = [f"data/{self.name}/{names[c]}/{i:07d}.jpg" for i, c in enumerate(labels)]
        digests = [hashlib.sha256(path.encode()).hexdigest() for path in paths]
        test = splits.is_test(self.name, 0, [names[c] for c in labels], digests, test_fraction=0.1)
        return Manifest(
            images=tuple(ImageRow(p, d, 0, 0) for p, d in zip(paths, digests, strict=True)),
            tasks=Tasks(labels // PER_TASK, (0,), test[:, None]),
            classes=tuple(ClassRow(c, name, c // PER_TASK) for c, name in enumerate(names)),
            labels=tuple(LabelRow(p, names[c], int(c)) for p, c in zip(paths, labels, strict=True)),
            report={"domain": self.name, "images": self.rows},
        )


def write_params(project: ImportedProject, **sections: object) -> None:
    """Write the params of the two domains."""
    domain = {"dataset": "made", "images": "none.npz", "views": VIEWS, "templates": ["a {}"]}
    model = {"library": "imported", "name": "made", "origin": "none.npz"}
    project.set(
        {
            "suite": "made",
            "datasets": {"made": {"classes_per_task": PER_TASK, "class_names": {}}},
            "generated": {},
            "lists": {},
            "domains": {"a": domain, "b": domain},
            "models": {"vit": model, "clip": model},
            "vision": "vit",
            "language": "clip",
            "sources": {"a": {}},
            "problems": {"a-b": {"source": "a", "target": "b"}},
            "swept": {},
            "data": {"seeds": [0]},
            "views": {},
            "rff": {"D": D, "sigma": 1e-4},
            "method": {"variant": "calibrated", "options": {}},
            "compare": {"methods": ["calibrated"]},
            "sensitivity": {"D": [100], "sigma": [1e-4]},
            "refinement": {},
        }
        | sections
    )


def run(folder: Path, rows: int, **sections: object) -> dict[str, tuple[float, int]]:
    """Write the project if it is not there; return seconds and peak bytes of every stage."""
    project = ImportedProject(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_params(project, **sections)
    for seed, name in enumerate(("a", "b")):
        if not (folder / "cache/prompts" / f"{name}.zarr").is_dir():
            # apart: a child's peak counts from that of the process it was forked from
            made = MadeUpDomain(name, rows, seed)
            writer = multiprocessing.get_context("spawn").Process(target=made.write, args=(folder,))
            writer.start()
            writer.join()
            if writer.exitcode:
                raise SystemExit(f"domain {name} was not written")
    measured = {}
    for stage, argument in STAGES:
        measured[stage] = project.run(stage, argument)
        seconds, peak = measured[stage]
        print(f"{stage}: {seconds:.0f} s, {peak / 1e9:.2f} GB", file=sys.stderr, flush=True)
    return measured


def table(rows: int, measured: dict[str, tuple[float, int]]) -> str:
    """Return what was measured as a Markdown table."""
    lines = [f"| stage, {rows:,} rows | seconds | peak memory |", "|---|---:|---:|"]
    lines += [
        f"| `{stage}` | {seconds:.0f} | {peak / 1e9:.2f} GB |"
        for stage, (seconds, peak) in measured.items()
    ]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Run it; status 1 where a stage took more memory than it may."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="kept, and used again; else a temporary one")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="referee-scale-") as temporary:
        folder = args.folder or Path(temporary)
        measured = run(folder, args.rows)
        told = json.loads((folder / "results/metrics/a-b.json").read_text())
    print(table(args.rows, measured))
    print(f"\nA_T {told['A_T']}, source only {told['source_only_A_T']}")
    return 0 if all(peak <= LIMIT for _, peak in measured.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
