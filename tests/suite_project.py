"""A project of any of the repository's suites, as a user has it: the files that git has, and images as downloaded.

Weights and features are tiny; every folder is where the suite says.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from downloaded_datasets import PER_CLASS, UNPACK
from pipeline.params import load_params
from small_project import ROOT, VIT_KWARGS, SmallProject, draw_domain, write_tiny_weights

NOT_NEEDED = ("tests/", "docs/", "benchmarks/", "pretraining/", "cluster/")
IMPORTED_CLASSES = {"office_caltech10": 10, "pacs3": 7}
SMALL: dict[str, dict[str, Any]] = {
    "data": {"seeds": [0]},
    "rff": {"D": 30, "sigma": 1e-4, "convention": "gamma", "orthogonal": False},
    "sensitivity": {"D": [10, 30], "sigma": [1e-5, 1e-4]},
    "runtime": {"device": "cpu"},
}
TINY_MODELS: dict[str, dict[str, Any]] = {
    "timm": {"name": "vit_tiny_patch16_224", "kwargs": VIT_KWARGS},
    "open_clip": {"name": "tiny"},
}


def suite_project(folder: Path, suite: str) -> SmallProject:
    """Make the files of a clone, `referee use SUITE`, tiny images and weights where the suite looks for them."""
    project = SmallProject(folder)
    copy_tracked_files(folder)
    project.run("git", "init", "--quiet")
    project.run("git", "config", "user.email", "owner@example.invalid")
    project.run("git", "config", "user.name", "Owner")
    project.run("referee", "use", suite)  # to learn the names of the classes
    make_images(folder, suite)
    project.run("referee", "use", suite)  # again: it writes the folders that it finds
    params = project.read_params()
    for section, values in SMALL.items():
        params[section].update(values)
    for generated in params["generated"].values():
        generated["per_class"] = 12
    tiny_weights(folder, params["models"])
    project.write_params(params)
    return project


def copy_tracked_files(folder: Path) -> None:
    """Copy what git has of the repository, and nothing that it has not."""
    listed = subprocess.run(("git", "ls-files", "-z"), cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if not name.startswith(NOT_NEEDED) and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def make_images(folder: Path, suite: str) -> None:
    """Draw the images of a suite as its datasets unpack; for imported features, the files that stand for images."""
    params = load_params(folder)
    for dataset, described in params.datasets.items():
        if dataset in UNPACK:
            UNPACK[dataset](folder / "data" / dataset, list(described.class_names))
    if suite in IMPORTED_CLASSES:
        write_imported(folder / "data" / suite, list(params.domains), IMPORTED_CLASSES[suite])
    for seed, domain in enumerate(params.domains.values()):
        if domain.dataset not in (*UNPACK, *IMPORTED_CLASSES, "digits"):
            draw_domain(folder / domain.images, ("ant", "bee", "cat", "dog"), PER_CLASS, seed)


def write_imported(folder: Path, domains: list[str], classes: int) -> None:
    """Write vision.npz and clip_space.npz of random features."""
    rng = np.random.default_rng(0)
    names = [f"class_{number}" for number in range(classes)]
    paths = [f"{d}/{c}/{i}.jpg" for d in domains for c in names for i in range(PER_CLASS)]
    folder.mkdir(parents=True)
    arrays = ("original", "zeros", "rand_matched", "rand_unit", "rand_0p1")
    vision = {name: rng.normal(size=(len(paths), 24)).astype(np.float16) for name in arrays}
    np.savez(folder / "vision.npz", paths=paths, **vision)
    clip = {"original": rng.normal(size=(len(paths), 16)).astype(np.float16)}
    text = rng.normal(size=(classes, 16)).astype(np.float32)
    scale = np.float32(100)
    np.savez(folder / "clip_space.npz", **clip, paths=paths, text=text, class_names=names, logit_scale=scale)


def tiny_weights(folder: Path, models: dict[str, dict[str, Any]]) -> None:
    """Put tiny weights where git has none, and let the models be tiny."""
    for model in models.values():
        origin = folder / model["origin"]
        if model["library"] != "imported" and not origin.exists():
            write_tiny_weights(folder / "weights/tiny")
            kind = {"timm": "vit", "open_clip": "clip"}[model["library"]]
            shutil.move(folder / "weights/tiny" / kind, origin)
            shutil.rmtree(folder / "weights/tiny")
            model.update(TINY_MODELS[model["library"]])
            model.pop("pretrained", None)
