"""A project of any of the repository's suites, as a user has it: the files that git has, and images as downloaded.

Images are few and tiny, in the folders, file names and lists as each dataset unpacks. Weights and features are tiny;
every folder is where the suite says.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.config.params import load_params
from small_project import ROOT, VIT_KWARGS, SmallProject, draw_domain, draw_image, write_tiny_weights

NOT_NEEDED = ("tests/", "docs/", "benchmarks/", "pretraining/", "cluster/")
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
    """Make the files of a clone, `referee use SUITE`, tiny images and weights where the suite looks for them."""
    project = SmallProject(folder)
    copy_tracked_files(folder)
    project.git_init()
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


def draw(paths: Iterable[Path]) -> None:
    for seed, path in enumerate(paths):
        draw_image(path, seed)


def write_list(path: Path, listed: Sequence[tuple[str, int]]) -> None:
    path.write_text("".join(f"{name} {label}\n" for name, label in listed))


def unpack_office31(folder: Path, classes: Classes) -> None:
    """domain_adaptation_images.tar.gz in data/office31."""
    for domain in ("amazon", "dslr", "webcam"):
        draw(
            folder / domain / "images" / name / f"frame_{i:04}.jpg" for name in classes for i in range(1, PER_CLASS + 1)
        )


def unpack_officehome(folder: Path, classes: Classes) -> None:
    """OfficeHomeDataset_10072016.zip, which has a folder on top, in data/officehome."""
    top = folder / "OfficeHomeDataset_10072016"
    for domain in ("Art", "Clipart", "Product", "Real World"):
        draw(top / domain / name / f"{i:05}.jpg" for name in classes for i in range(1, PER_CLASS + 1))
    (top / "ImageInfo.csv").write_text("Art,Alarm_Clock,1,00001.jpg\n")
    (top / "imagelist.txt").write_text("Art/Alarm_Clock/00001.jpg\n")


def unpack_visda(folder: Path, classes: Classes) -> None:
    """train.tar and validation.tar in data/visda; each brings its image_list.txt."""
    for part, pattern in (("train", "src_1_02691156_{}__{}_236_150.png"), ("validation", "{}_{}.jpg")):
        listed = [
            (f"{name}/{pattern.format(name, i)}", label) for label, name in enumerate(classes) for i in range(PER_CLASS)
        ]
        draw(folder / part / path for path, _ in listed)
        write_list(folder / part / "image_list.txt", listed)


def unpack_domainnet(folder: Path, classes: Classes) -> None:
    """clipart.zip and sketch.zip in data/domainnet, beside them the published lists.

    The lists number the classes in an order of their own. Of each class one image is in the test list, the others in
    the train list, but for one image of clipart that is in neither.
    """
    order = sorted(classes, key=lambda name: name.lower().replace("-", ""))
    for domain in ("clipart", "sketch"):
        listed = [
            (f"{domain}/{name}/{domain}_{label + 1:03}_{label * PER_CLASS + i + 1:06}.jpg", label)
            for label, name in enumerate(order)
            for i in range(PER_CLASS)
        ]
        draw(folder / path for path, _ in listed)
        write_list(folder / f"{domain}_test.txt", listed[::PER_CLASS])
        write_list(folder / f"{domain}_train.txt", [pair for pair in listed if pair not in listed[::PER_CLASS]])
    draw_image(folder / "clipart" / order[0] / "clipart_001_999999.jpg", seed=2**32 - 1)


UNPACK: dict[str, Callable[[Path, Classes], None]] = {
    "office31": unpack_office31,
    "officehome": unpack_officehome,
    "visda": unpack_visda,
    "domainnet": unpack_domainnet,
}


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
    write_tiny_weights(folder / "tiny")
    for model in models.values():
        origin = folder / model["origin"]
        if model["library"] != "imported" and not origin.exists():
            kind = {"timm": "vit", "open_clip": "clip"}[model["library"]]
            shutil.copytree(folder / "tiny" / kind, origin)
            model.update(TINY_MODELS[model["library"]])
            model.pop("pretrained", None)
    shutil.rmtree(folder / "tiny")
