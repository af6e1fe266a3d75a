"""Create a project of any suite in the repository as a user has it: tracked files, and images as downloaded.

Images are few and tiny, but folders, file names and lists are those of the unpacked dataset. Weights and imported
features are tiny, in the places that the suite names.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.config.params import load_params
from small_project import ROOT, VIT_KWARGS, SmallProject, draw_domain, draw_image, write_tiny_weights

UNUSED_FOLDERS = ("tests/", "docs/", "benchmarks/", "pretraining/", "cluster/")
PER_CLASS = 3
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
Classes = Sequence[str]


def suite_project(folder: Path, suite: str) -> SmallProject:
    """Copy the tracked files, choose the suite and create tiny images and weights where the suite expects them."""
    project = SmallProject(folder)
    copy_tracked_files(folder)
    project.git_init()
    project.run("referee", "use", suite)  # defines the classes
    make_images(folder, suite)
    project.run("referee", "use", suite)  # chooses the folders that now exist
    params = project.read_params()
    for section, values in SMALL.items():
        params[section].update(values)
    for generated in params["generated"].values():
        generated["per_class"] = 12
    add_tiny_weights(folder, params["models"])
    project.write_params(params)
    return project


def copy_tracked_files(folder: Path) -> None:
    """Copy the files that git tracks."""
    tracked = subprocess.run(("git", "ls-files", "-z"), cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, tracked.stdout.split("\0")):
        if not name.startswith(UNUSED_FOLDERS) and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def make_images(folder: Path, suite: str) -> None:
    """Draw the images of a suite as its datasets unpack, or write its imported features."""
    params = load_params(folder)
    for name, dataset in params.datasets.items():
        if name in UNPACK:
            UNPACK[name](folder / "data" / name, list(dataset.class_names))
    if suite in IMPORTED_CLASSES:
        write_imported(folder / "data" / suite, list(params.domains), IMPORTED_CLASSES[suite])
    for seed, domain in enumerate(params.domains.values()):
        if domain.dataset not in (*UNPACK, *IMPORTED_CLASSES, "digits"):
            draw_domain(folder / domain.images, ("ant", "bee", "cat", "dog"), PER_CLASS, seed)


def draw(paths: Iterable[Path]) -> None:
    for seed, path in enumerate(paths):
        draw_image(path, seed)


def write_list(path: Path, entries: Sequence[tuple[str, int]]) -> None:
    path.write_text("".join(f"{name} {label}\n" for name, label in entries))


def unpack_office31(folder: Path, classes: Classes) -> None:
    """Unpack domain_adaptation_images.tar.gz in data/office31."""
    for domain in ("amazon", "dslr", "webcam"):
        draw(
            folder / domain / "images" / name / f"frame_{i:04}.jpg" for name in classes for i in range(1, PER_CLASS + 1)
        )


def unpack_officehome(folder: Path, classes: Classes) -> None:
    """Unpack OfficeHomeDataset_10072016.zip, which has a top folder, in data/officehome."""
    top = folder / "OfficeHomeDataset_10072016"
    for domain in ("Art", "Clipart", "Product", "Real World"):
        draw(top / domain / name / f"{i:05}.jpg" for name in classes for i in range(1, PER_CLASS + 1))
    (top / "ImageInfo.csv").write_text("Art,Alarm_Clock,1,00001.jpg\n")
    (top / "imagelist.txt").write_text("Art/Alarm_Clock/00001.jpg\n")


def unpack_visda(folder: Path, classes: Classes) -> None:
    """Unpack train.tar and validation.tar, each with an image_list.txt, in data/visda."""
    for part, pattern in (("train", "src_1_02691156_{}__{}_236_150.png"), ("validation", "{}_{}.jpg")):
        entries = [
            (f"{name}/{pattern.format(name, i)}", label) for label, name in enumerate(classes) for i in range(PER_CLASS)
        ]
        draw(folder / part / path for path, _ in entries)
        write_list(folder / part / "image_list.txt", entries)


def unpack_domainnet(folder: Path, classes: Classes) -> None:
    """Unpack clipart.zip and sketch.zip in data/domainnet, beside the published lists.

    The lists number the classes in another order. One image per class is in the test list, the others are in the train
    list, except one image of clipart that is in neither.
    """
    order = sorted(classes, key=lambda name: name.lower().replace("-", ""))
    for domain in ("clipart", "sketch"):
        entries = [
            (f"{domain}/{name}/{domain}_{label + 1:03}_{label * PER_CLASS + i + 1:06}.jpg", label)
            for label, name in enumerate(order)
            for i in range(PER_CLASS)
        ]
        draw(folder / path for path, _ in entries)
        write_list(folder / f"{domain}_test.txt", entries[::PER_CLASS])
        write_list(folder / f"{domain}_train.txt", [entry for entry in entries if entry not in entries[::PER_CLASS]])
    draw_image(folder / "clipart" / order[0] / "clipart_001_999999.jpg", seed=2**32 - 1)


UNPACK: dict[str, Callable[[Path, Classes], None]] = {
    "office31": unpack_office31,
    "officehome": unpack_officehome,
    "visda": unpack_visda,
    "domainnet": unpack_domainnet,
}


def write_imported(folder: Path, domains: list[str], classes: int) -> None:
    """Write random features to vision.npz and clip_space.npz."""
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


def add_tiny_weights(folder: Path, models: dict[str, dict[str, Any]]) -> None:
    """Write tiny weights where there are none, and set the models to the tiny architectures."""
    write_tiny_weights(folder / "tiny")
    for model in models.values():
        origin = folder / model["origin"]
        if model["library"] != "imported" and not origin.exists():
            kind = {"timm": "vit", "open_clip": "clip"}[model["library"]]
            shutil.copytree(folder / "tiny" / kind, origin)
            model.update(TINY_MODELS[model["library"]])
            model.pop("pretrained", None)
    shutil.rmtree(folder / "tiny")
