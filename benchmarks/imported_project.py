"""A project of made-up features of any size in a folder, run by the real stages, each a process of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class ImportedProject:
    """Two domains, `a` (source) and `b` (target), whose features stand in for both models."""

    folder: Path

    def write(
        self,
        *,
        source: int,
        target: int,
        classes: int,
        per_task: int,
        width: int = 768,
        **sections: Any,
    ) -> None:
        """Write features and params.yaml; ``sections`` replace or add to its sections."""
        rng = np.random.default_rng(0)
        centres = rng.normal(size=(classes, width)).astype(np.float32)
        arrays: dict[str, list[np.ndarray]] = {"original": [], "zeros": [], "rand": [], "said": []}
        paths: list[str] = []
        for domain, n in (("a", source), ("b", target)):
            for c in range(classes):
                count = n // classes + (c < n % classes)
                paths += [f"{domain}/c{c:04d}/{i:07d}.jpg" for i in range(count)]
                base = centres[c] + 6 * rng.standard_normal((count, width), dtype=np.float32)
                for name in ("original", "zeros", "rand"):
                    noise = rng.standard_normal(base.shape, dtype=np.float32)
                    arrays[name].append((base + 0.5 * noise).astype(np.float16))
                said = centres[c, :64] + 2 * rng.standard_normal((count, 64), dtype=np.float32)
                arrays["said"].append(said.astype(np.float16))
        self.folder.mkdir(parents=True, exist_ok=True)
        views = {name: np.vstack(arrays.pop(name)) for name in ("original", "zeros", "rand")}
        names = np.array(paths)
        np.savez(self.folder / "vision.npz", paths=names, **views)
        np.savez(
            self.folder / "clip.npz",
            paths=names,
            original=np.vstack(arrays["said"]),
            text=centres[:, :64],
            class_names=np.array([f"c{c:04d}" for c in range(classes)]),
            logit_scale=np.array(30.0),
        )
        domain = {"dataset": "made", "images": "vision.npz", "templates": ["a {}"]}
        params: dict[str, Any] = {
            "suite": "made",
            "datasets": {"made": {"classes_per_task": per_task, "class_names": {}}},
            "generated": {},
            "lists": {},
            "domains": {
                key: {**domain, "views": ["original", "zeros", "rand"]} for key in ("a", "b")
            },
            "models": {
                "vit": {"library": "imported", "name": "made", "origin": "vision.npz"},
                "clip": {
                    "library": "imported",
                    "name": "made",
                    "origin": "clip.npz",
                    "views": ["original"],
                },
            },
            "vision": "vit",
            "language": "clip",
            "sources": {"a": {}},
            "problems": {"a-b": {"source": "a", "target": "b"}},
            "swept": {"a-b": {"source": "a", "target": "b"}},
            "data": {"seeds": [0], "test_fraction": 0.1},
            "views": {},
            "rff": {"D": 1000, "sigma": 1e-4},
            "method": {"variant": "calibrated", "options": {}},
            "compare": {"methods": ["calibrated"]},
            "sensitivity": {"D": [100], "sigma": [1e-4]},
            "refinement": {},
        }
        self.set(params | sections)

    def set(self, params: dict[str, Any]) -> None:
        """Write params.yaml (JSON is YAML)."""
        (self.folder / "params.yaml").write_text(json.dumps(params))

    def change(self, **sections: Any) -> None:
        """Replace sections of params.yaml."""
        read: dict[str, Any] = json.loads((self.folder / "params.yaml").read_text())
        self.set(read | sections)

    def run(self, stage: str, *arguments: str) -> tuple[float, int]:
        """Run a stage; return its seconds and its largest memory in bytes."""
        before = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", f"pipeline.stages.{stage}", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"stage {stage} failed")
        return time.perf_counter() - before, usage.ru_maxrss * 1024

    def cache(self) -> None:
        """Make everything before the statistics."""
        for domain in ("a", "b"):
            self.run("manifest", domain)
            for model in ("vit", "clip"):
                if domain == "a":
                    self.run("model", model)
            for model in ("vit", "clip"):
                self.run("embed", domain, model)
            self.run("prompts", domain)


def children_memory() -> int:
    """Return the largest memory of any child so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
