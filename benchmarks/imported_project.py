"""Write a project of two domains of random features of any size, and run its stages as processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
VIEWS = ("original", "zeros", "rand")
# stages that write the caches of features, in order
FEATURES = (
    *((stage, domain) for stage in ("manifest", "order", "tasks") for domain in ("a", "b")),
    *(("model", model) for model in ("vit", "clip")),
    *(("embed", domain, model) for domain in ("a", "b") for model in ("vit", "clip")),
    *(("prompts", domain) for domain in ("a", "b")),
)
STATISTICS = (("source", "a"), ("adapt", "a-b"), ("evaluate", "a-b"))


def rff(D: int, sigma: float = 1e-4) -> dict[str, Any]:
    """Return the section `rff`."""
    return {"D": D, "sigma": sigma, "convention": "gamma", "orthogonal": False}


def default_params(per_task: int) -> dict[str, Any]:
    """Return all sections of both files, with domains `a` (source) and `b` (target), imported features and one seed."""
    domain = {"dataset": "toy", "images": "vision.npz", "templates": ["a {}"], "views": VIEWS}
    model = {"library": "imported", "name": "random"}
    return {
        "suite": "toy",
        "datasets": {"toy": {"classes_per_task": per_task, "class_names": {}}},
        "generated": {},
        "domains": {"a": domain, "b": domain},
        "models": {
            "vit": {**model, "origin": "vision.npz"},
            "clip": {**model, "origin": "clip.npz", "views": ["original"]},
        },
        "vision": "vit",
        "language": "clip",
        "sources": {"a": {}},
        "problems": {"a-b": {"source": "a", "target": "b"}},
        "swept": {"a-b": {"source": "a", "target": "b"}},
        "steps": {},
        "past": {},
        "joined": [],
        "data": {"seeds": [0], "test_fraction": 0.1},
        "views": {},
        "rff": rff(1000),
        "method": {"variant": "calibrated", "options": {}},
        "compare": {"methods": ["calibrated"]},
        "sensitivity": {"D": [100], "sigma": [1e-4]},
        "select": {},
        "refinement": {},
    }


@dataclass(frozen=True)
class ImportedProject:
    """A folder with params.yaml, suite.yaml and two .npz files of features."""

    folder: Path

    def write(
        self,
        *,
        source: int,
        target: int,
        classes: int,
        per_task: int,
        width: int = 768,
        clip_width: int = 64,
        **sections: Any,
    ) -> None:
        """Write features of given numbers of images and the parameters; ``sections`` replace default ones."""
        rng = np.random.default_rng(0)
        centres = rng.normal(size=(classes, width)).astype(np.float32)
        counts = {"a": source, "b": target}
        labels = {name: np.sort(np.arange(n) % classes) for name, n in counts.items()}
        paths = [f"{name}/c{c:04d}/{i:07d}.jpg" for name, y in labels.items() for i, c in enumerate(y)]
        y = np.concatenate(list(labels.values()))

        def features(d: int, spread: float) -> np.ndarray:
            noise = rng.standard_normal((len(y), d), dtype=np.float32)
            return (centres[y, :d] + spread * noise).astype(np.float16)

        views = {"original": features(width, 6.0)}
        for view in VIEWS[1:]:
            noise = rng.standard_normal((len(y), width), dtype=np.float32)
            views[view] = (views["original"] + 0.5 * noise).astype(np.float16)
        self.folder.mkdir(parents=True, exist_ok=True)
        np.savez(self.folder / "vision.npz", paths=np.array(paths), **views)
        np.savez(
            self.folder / "clip.npz",
            paths=np.array(paths),
            original=features(clip_width, 2.0),
            text=centres[:, :clip_width],
            class_names=np.array([f"c{c:04d}" for c in range(classes)]),
            logit_scale=np.array(30.0),
        )
        self.set(default_params(per_task) | sections)

    def set(self, params: dict[str, Any]) -> None:
        """Write params.yaml and suite.yaml (JSON is YAML)."""
        from pipeline.config.settings import Settings

        settings = {key: value for key, value in params.items() if key in Settings.model_fields}
        suite = {key: value for key, value in params.items() if key not in settings}
        for name, sections in (("params.yaml", settings), ("suite.yaml", suite)):
            (self.folder / name).write_text(json.dumps(sections))

    def read(self) -> dict[str, Any]:
        """Return the sections of both files."""
        files = (self.folder / name for name in ("params.yaml", "suite.yaml"))
        return {key: value for file in files for key, value in json.loads(file.read_text()).items()}

    def change(self, **sections: Any) -> None:
        """Replace sections of either file."""
        self.set(self.read() | sections)

    def run(self, stage: str, *keys: str) -> tuple[float, int]:
        """Run a stage; return its seconds and its peak memory in bytes."""
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "pipeline.stages", stage, *keys],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status  # Popen does not know that the process has ended
        if status:
            raise SystemExit(f"stage {stage} failed")
        return time.perf_counter() - start, usage.ru_maxrss * 1024

    def cache(self) -> None:
        """Run all stages before the statistics."""
        for stage in FEATURES:
            self.run(*stage)
