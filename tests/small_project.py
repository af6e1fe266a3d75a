"""Create a small project in a temporary folder: the real dvc.yaml and package, tiny images, tiny random weights.

DVC, the stages, timm and open_clip are real; only sizes are small.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from ruamel.yaml import YAML

from pipeline.config.suite import Suite
from pipeline.stage import find_stage

ROOT = Path(__file__).parents[1]
SUITE_SECTIONS = tuple(Suite.model_fields)
STAGE = (sys.executable, "-m", "pipeline.stages")
VIT_KWARGS = {"img_size": 16, "patch_size": 8, "embed_dim": 24, "depth": 1, "num_heads": 2}
CLIP_CONFIG = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 16, "layers": 1, "width": 24, "head_width": 12, "patch_size": 8},
    "text_cfg": {"context_length": 8, "vocab_size": 49408, "width": 8, "heads": 2, "layers": 1},
}


def draw_image(path: Path, seed: int, size: tuple[int, int] = (20, 17)) -> None:
    """Write a PNG of smooth random colours."""
    path.parent.mkdir(parents=True, exist_ok=True)
    small = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(small).resize(size, Image.Resampling.BICUBIC).save(path)


def draw_domain(folder: Path, classes: tuple[str, ...], per_class: int, seed: int) -> None:
    """Write ``per_class`` images per class as CLASS/NUMBER.png."""
    for c, name in enumerate(classes):
        for i in range(per_class):
            draw_image(folder / name / f"{i}.png", seed * 100_000 + c * 1000 + i)


def write_tiny_weights(folder: Path) -> None:
    """Write random weights of a tiny timm ViT and a tiny open_clip model, laid out like downloads from the hub."""
    import torch
    from safetensors.torch import save_file

    from pipeline.encoders.torchvision_ops import ensure_torchvision_ops

    ensure_torchvision_ops()
    import open_clip
    import timm

    torch.manual_seed(0)
    vit = timm.create_model("vit_tiny_patch16_224", num_classes=0, **VIT_KWARGS)
    clip = open_clip.CLIP(**CLIP_CONFIG)
    for name, module in (("vit/model", vit), ("clip/open_clip_model", clip)):
        path = folder / f"{name}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {key: value.half().contiguous() for key, value in module.state_dict().items()}
        save_file(state, path)
    (folder / "clip" / "open_clip_config.json").write_text(json.dumps({"model_cfg": CLIP_CONFIG}))


def small_params() -> dict[str, Any]:
    """Return the parameters of a project with two domains and one problem."""
    domain = {"dataset": "toy", "views": ["original", "zeros", "rand"], "templates": ["a photo of a {}"]}
    return {
        "suite": "toy",
        "datasets": {"toy": {"classes_per_task": 2, "class_names": {}}},
        "generated": {},
        "domains": {name: {**domain, "images": f"data/{name}"} for name in ("left", "right")},
        "models": {
            "vit": {"library": "timm", "name": "vit_tiny_patch16_224", "origin": "weights/vit", "kwargs": VIT_KWARGS},
            "clip": {"library": "open_clip", "name": "tiny", "origin": "weights/clip"},
        },
        "vision": "vit",
        "language": "clip",
        "sources": {"left": {}},
        "problems": {"left-right": {"source": "left", "target": "right"}},
        "swept": {"left-right": {"source": "left", "target": "right"}},
        "steps": {},
        "past": {},
        "joined": [],
        "data": {"seeds": [0, 1], "test_fraction": 0.25},
        "views": {"wavelet": "haar", "level": 1, "noise": "matched", "seed": 0},
        "rff": {"D": 50, "sigma": 1e-4, "convention": "gamma", "orthogonal": False},
        "method": {"variant": "calibrated", "options": {}},
        "compare": {"methods": ["clip_zero_shot", "source_only", "no_clip", "calibrated"]},
        "sensitivity": {"D": [20, 60], "sigma": [1e-5, 1e-4]},
        "select": {"sigma": [1e-5, 1e-4], "options": {"ridge": [0.1, 0.3]}},
        "refinement": {"steps": 0, "step_size": 0.01, "radius": 0.03, "mutual_attention": False},
        "runtime": {"device": "cpu", "workers": 2},
    }


PROBLEM = "left-right"


def all_stages(params: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the arguments of all stages in the order of dvc.yaml, in which each finds its inputs."""
    graph = YAML(typ="safe", pure=True).load((ROOT / "dvc.yaml").read_text())["stages"].values()
    names = dict.fromkeys(stage.get("do", stage)["cmd"].split()[3] for stage in graph)
    return [(name, *keys) for name in names for keys in itertools.product(*_keys(params, find_stage(name).per))]


def _keys(params: Mapping[str, Any], sections: Iterable[str]) -> Iterator[list[str]]:
    for section in sections:
        yield [entry["name"] if isinstance(entry, dict) else entry for entry in params.get(section, ())]


def feature_stages(*domains: str, models: Iterable[str] = ("vit", "clip")) -> list[tuple[str, ...]]:
    """Return the stages that compute the features of domains, in the same order."""
    stages = all_stages({"domains": domains, "models": list(models)})
    return [stage for stage in stages if find_stage(stage[0]).version is not None]


class SmallProject:
    """A folder in which to run stages, `referee` and `dvc` as a user does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self, *, per_class: int = 6, dvc: bool = False) -> SmallProject:
        """Write images, weights and parameters; with ``dvc``, also the graph, the package and both repositories."""
        write_tiny_weights(self.folder / "weights")
        for seed, name in enumerate(("left", "right")):
            draw_domain(self.folder / "data" / name, ("ant", "bee", "cat", "dog"), per_class, seed)
        self.write_params(small_params())
        if dvc:
            self.add_graph()
        return self

    def add_graph(self) -> None:
        """Copy dvc.yaml, the package and the tracked README files, and create the git and DVC repositories."""
        for name in ("dvc.yaml", ".dvcignore", ".gitignore"):
            shutil.copy(ROOT / name, self.folder)
        for name in ("data", "weights", "cache"):
            if not (self.folder / name).is_symlink():
                (self.folder / name).mkdir(exist_ok=True)
                shutil.copy(ROOT / name / "README.md", self.folder / name)
        shutil.copytree(ROOT / "pipeline", self.folder / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
        self.git_init()
        self.run("dvc", "init", "--quiet")
        shutil.copytree(ROOT / ".dvc" / "plots", self.folder / ".dvc" / "plots")
        self.run("dvc", "config", "core.analytics", "false")
        self.run("dvc", "config", "plots.html_template", "plots/page.html")

    def git_init(self) -> None:
        """Create a git repository with a user name."""
        self.run("git", "init", "--quiet")
        self.run("git", "config", "user.email", "owner@example.invalid")
        self.run("git", "config", "user.name", "Owner")

    def clone(self, folder: Path) -> SmallProject:
        """Return a git clone with a user name."""
        self.run("git", "clone", "--quiet", str(self.folder), str(folder))
        clone = SmallProject(folder)
        clone.git_init()
        return clone

    def commit(self, message: str) -> None:
        """Commit everything to git."""
        self.run("git", "add", ".")
        self.run("git", "commit", "--quiet", "-m", message)

    def write_params(self, params: dict[str, Any]) -> None:
        """Write each section to params.yaml or suite.yaml."""
        suite = {key: value for key, value in params.items() if key in SUITE_SECTIONS}
        settings = {key: value for key, value in params.items() if key not in SUITE_SECTIONS}
        for name, content in (("suite.yaml", suite), ("params.yaml", settings)):
            with (self.folder / name).open("w") as file:
                YAML().dump(content, file)

    def read_params(self) -> dict[str, Any]:
        """Read the sections of params.yaml and suite.yaml."""
        yaml = YAML(typ="safe", pure=True)
        files = ("suite.yaml", "params.yaml")
        return {k: v for name in files for k, v in yaml.load((self.folder / name).read_text()).items()}

    def results(self, *parts: str) -> Path:
        """Return a path in the suite's folder of results."""
        return self.folder.joinpath("results", self.read_params()["suite"], *parts)

    def change_params(self, **sections: Any) -> None:
        """Update sections of params.yaml or suite.yaml; replace those that are not mappings."""
        params = self.read_params()
        for section, value in sections.items():
            params[section] = {**params[section], **value} if isinstance(value, dict) else value
        self.write_params(params)

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the environment of a user who activated .venv, without git's variables."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        return {**inherited, "PATH": path, "DVC_NO_ANALYTICS": "1", **variables}

    def run(self, *command: str, ok: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder; check that it succeeds unless ``ok`` is False."""
        environment = self.environment(**variables)
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        if ok:
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        """Start a command in a new process group."""
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def stage(self, name: str, *args: str, ok: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the command line of a stage."""
        return self.run(*STAGE, name, *args, ok=ok, **variables)

    def refusal(self, name: str, *args: str, **variables: str) -> str:
        """Run a stage that must fail; return its error line."""
        return refusal(self.stage(name, *args, ok=False, **variables))

    def run_in_process(self, *stages: tuple[str, ...]) -> None:
        """Run stages in this process, which imports torch only once; check that each succeeds."""
        from pipeline.stage import main

        with contextlib.chdir(self.folder):
            for arguments in stages:
                assert main(arguments) == 0, arguments

    def commit_stages(self) -> None:
        """Record the outputs on disk in dvc.lock, as if `dvc repro` had run all stages."""
        self.run("dvc", "commit", "--quiet", "--force")

    def repro(self, *args: str, **variables: str) -> set[str]:
        """Run `dvc repro` and return the names of the stages that ran."""
        return stages_run(self.run("dvc", "repro", *args, **variables).stdout)


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """Check that a command failed with status 2 and one line on stderr; return the line."""
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("referee: error: ")
    return line


def stages_run(output: str) -> set[str]:
    """Parse the names of the stages that ran from the output of `dvc repro`."""
    return {line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage '")}


def read_csv(file: Path) -> list[dict[str, str]]:
    """Read a CSV file as one dict per row."""
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def run_and_commit(folder: Path) -> None:
    """Create the small project, run all its stages in one process and commit them to DVC and git."""
    folder.mkdir()
    project = SmallProject(folder).create(dvc=True)
    project.run_in_process(*all_stages(small_params()))
    project.commit_stages()
    project.commit("features of our images")


def make_once(base: Path, name: str, make: Callable[[Path], object]) -> Path:
    """Create a folder once for all processes of pytest; return its path. Read or copy it, do not change it."""
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base / name).exists():
            unfinished = base / f"unfinished-{name}"
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished)
            unfinished.rename(base / name)
    return base / name


def tree_digest(path: Path) -> str | None:
    """Return a digest of a file, or of the names and contents of a folder's files, or None if the path is missing."""
    if not path.is_dir():
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None
    files = sorted(file for file in path.rglob("*") if file.is_file())
    parts = (str(file.relative_to(path)).encode() + file.read_bytes() for file in files)
    return hashlib.sha256(b"".join(parts)).hexdigest()
