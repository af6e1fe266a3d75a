"""Streams on real features whose labels only this file knows: against all at once, estimates, corrections, new classes.

    python benchmarks/streams.py ../shared/real/office_caltech10 FOLDER
    python benchmarks/streams.py estimates ../shared/real/office_caltech10 FOLDER
    python benchmarks/streams.py new-classes ../shared/real/office_caltech10 FOLDER

Writes a project of imported features into FOLDER (once) and runs the real stages there. The stream has four steps with
overlapping classes; the second camera is forgotten (its rows are deleted) before the third step.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import paths
from pipeline.datasets.manifest_files import IMAGES
from pipeline.method.kernel_rows import kernel_rows
from pipeline.method.prediction import predict
from pipeline.method.rows import UnlabelledRows
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import CALIBRATED
from pipeline.method.zero_shot import cosines
from pipeline.params import load_params
from pipeline.stage import main, open_project
from pipeline.store.basis_file import read_bases
from pipeline.store.stream_state import read_stream_state

VIEWS = {"original": "original", "zeros": "zeros", "rand": "rand_matched"}
# source, the domains of two steps, two classes that the source lacks
NEW_CLASSES = {
    "office_caltech10": [
        ("amazon", ("webcam", "caltech10"), ("mug", "monitor")),
        ("amazon", ("caltech10", "dslr"), ("bike", "keyboard")),
    ],
    "pacs3": [
        ("photo", ("art_painting", "cartoon"), ("guitar", "horse")),
        ("art_painting", ("photo", "cartoon"), ("dog", "house")),
    ],
}


def write_project(real: Path, folder: Path, source: str, steps: Mapping[str, Any], new: Sequence[str] = ()) -> None:
    """Write features and suite: the source without ``new`` classes, a domain per step, one of all steps together."""
    vision, clip = (np.load(real / name) for name in ("vision.npz", "clip_space.npz"))
    names = [str(name) for name in clip["class_names"]]
    where = [tuple(str(path).split("/")) for path in vision["paths"]]
    rows, labels = [], []
    for row, (domain, name, file) in enumerate(where):
        if domain == source and name not in new:
            rows.append(row)
            labels.append(f"{source}/{name}/{file}")
        for number, (step, (camera, classes, part, parts)) in enumerate(steps.items()):
            if domain == camera and name in classes and row % parts == part:
                for key in (step, "together"):
                    rows.append(row)
                    labels.append(f"{key}/{name}/{number}_{file}")
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "vision.npz", paths=labels, **{v: vision[k][rows] for v, k in VIEWS.items()})
    np.savez(
        folder / "clip.npz",
        paths=labels,
        original=clip["original"][rows],
        text=clip["text"],
        class_names=names,
        logit_scale=clip["logit_scale"],
    )
    domain = {"dataset": "real", "images": "vision.npz", "views": list(VIEWS), "templates": ["a {}"]}
    unlabelled = {**domain, "dataset": "steps", "labels": "none"}
    datasets = {
        key: {"classes_per_task": len(names), "class_names": {n: n for n in names if n not in lacks}}
        for key, lacks in (("real", new), ("steps", ()))
    }
    before, entries = f"source/{source}", {}
    for step, (_, classes, _, _) in steps.items():
        entries[f"camera-{step}"] = entry(source, step, sorted(classes), before)
        before = f"streams/camera-{step}"
    every = sorted({name for _, classes, _, _ in steps.values() for name in classes})
    entries["once-together"] = entry(source, "together", every, f"source/{source}")
    suite = {
        "suite": "streams",
        "datasets": datasets,
        "generated": {},
        "domains": {source: domain, **dict.fromkeys((*steps, "together"), unlabelled)},
        "models": {
            "vit": {"library": "imported", "name": "real", "origin": "vision.npz"},
            "clip": {"library": "imported", "name": "real", "origin": "clip.npz", "views": ["original"]},
        },
        "vision": "vit",
        "language": "clip",
        "sources": {source: {}},
        "problems": {},
        "swept": {},
        "steps": entries,
        "past": {},
        "joined": [],
    }
    params = {
        "data": {"seeds": [0], "test_fraction": 0.1},
        "views": {},
        "rff": {"D": 1000, "sigma": 1e-4, "convention": "gamma", "orthogonal": False},
        "method": {"variant": "calibrated", "options": {}},
        "compare": {"methods": ["calibrated"]},
        "sensitivity": {"D": [100], "sigma": [1e-4]},
        "select": {},
        "refinement": {},
    }
    (folder / "suite.yaml").write_text(json.dumps(suite))
    (folder / "params.yaml").write_text(json.dumps(params))
    (folder / "none.csv").write_text("path,class\n")


def entry(source: str, domain: str, classes: Sequence[str], before: str) -> dict[str, Any]:
    """Return an entry of `steps`."""
    return {"source": source, "domain": domain, "classes": classes, "before": before, "corrections": "none.csv"}


def stage(text: str) -> None:
    """Run a stage; it must succeed."""
    if main(text.split()):
        raise SystemExit(text)


def prepare(source: str, domains: Sequence[str]) -> None:
    """Run everything before the steps."""
    for domain in (source, *domains):
        for text in ("manifest {}", "order {}", "tasks {}", "embed {} vit", "embed {} clip", "prompts {}"):
            stage(text.format(domain))
    stage(f"source {source}")


def step_accuracy(step: str) -> tuple[float, float, float]:
    """Return the true accuracy of a step's table, the estimate, and the mean confidence; in percent."""
    with paths.step_images("streams", step).open(newline="") as file:
        right = [row["class"] == row["path"].split("/")[1] for row in csv.DictReader(file)]
    figures = json.loads(paths.step_figures("streams", step).read_text())
    shown = [100 * figures[key] for key in ("estimated_accuracy", "mean_confidence")]
    return 100 * float(np.mean(right)), shown[0], shown[1]


def model_accuracy(step: str, domain: str) -> float:
    """Return the accuracy, in percent, of the model after a step on all images of a domain, over all classes seen."""
    params = load_params()
    state, target = read_stream_state(paths.stream_state(step)), open_project(params).domain(domain)
    clip = target.clip.read("original")
    similarity = cosines(clip, state.prompts.text)
    views = {view: target.vision.read(view) for view in CALIBRATED.views}
    rows = UnlabelledRows(views, similarity, clip)
    basis = read_bases(paths.bases(state.origin.source)).basis(0)
    means = state.statistics.prior_means
    found = predict(
        kernel_rows(basis, rows, CALIBRATED.clip_in_kernel),
        similarity,
        source=SourceModel(means, state.classifier, means),
        classifier=state.classifier,
        options=CALIBRATED,
        clip_scale=state.prompts.logit_scale,
    )
    with (paths.manifest(domain) / IMAGES).open(newline="") as file:
        truth = [row["path"].split("/")[1] for row in csv.DictReader(file)]
    return 100 * float(np.mean([state.classes[c] == name for c, name in zip(found.label, truth, strict=True)]))


def correct(step: str, per_class: int, *, least_certain: bool, seed: int, weight: float) -> None:
    """Write corrections of ``per_class`` images for each class of a step's first table, and run the step."""
    suite = json.loads(Path("suite.yaml").read_text())
    suite["steps"][step] |= {"corrections": "none.csv"}
    Path("suite.yaml").write_text(json.dumps(suite))
    with Path(f"{step}.first.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    classes = {row["path"].split("/")[1] for row in rows}
    if not least_certain:
        np.random.default_rng(seed).shuffle(rows)
    chosen = rows[: per_class * len(classes)]
    lines = [f"{row['path']},{row['path'].split('/')[1]}\n" for row in chosen]
    Path("some.csv").write_text("path,class\n" + "".join(lines))
    suite["steps"][step] |= {"corrections": "some.csv", "correction_weight": weight}
    Path("suite.yaml").write_text(json.dumps(suite))
    stage(f"step {step}")
    suite["steps"][step] |= {"corrections": "none.csv"}
    Path("suite.yaml").write_text(json.dumps(suite))


def run(real: Path, folder: Path, source: str, steps: Mapping[str, Any]) -> None:
    """Print all figures."""
    if not (folder / "suite.yaml").exists():
        write_project(real, folder, source, steps)
    with chdir(folder):
        prepare(source, (*steps, "together"))
        for step in (*(f"camera-{step}" for step in steps), "once-together"):
            stage(f"step {step}")
            true, estimate, confidence = step_accuracy(step)
            sys.stdout.write(f"  {step}: accuracy {true:.1f}, estimated {estimate:.1f}, confidence {confidence:.1f}\n")
            if step == f"camera-{list(steps)[1]}":  # the second camera is forgotten
                for path in (paths.manifest("w2"), paths.prompts("w2"), Path("cache/embeddings/w2")):
                    shutil.rmtree(path)
        last = f"camera-{list(steps)[-1]}"
        for step in (last, "once-together"):
            sys.stdout.write(f"  model after {step} on all images: {model_accuracy(step, 'together'):.1f}\n")
        corrections("once-together")


def corrections(step: str) -> None:
    """Print what 1, 3 and 5 corrections per class gain on the images that nobody corrected, and on all."""
    table = paths.step_images("streams", step)
    stage(f"step {step}")
    Path(f"{step}.first.csv").write_text(table.read_text())
    for weight in (1.0, 5.0, 20.0):
        for per_class in (1, 3, 5):
            for least_certain, seeds in ((False, (0, 1, 2)), (True, (0,))):
                others, everything = [], []
                for seed in seeds:
                    correct(step, per_class, least_certain=least_certain, seed=seed, weight=weight)
                    with table.open(newline="") as file:
                        rows = list(csv.DictReader(file))
                    right = np.array([row["class"] == row["path"].split("/")[1] for row in rows])
                    untouched = np.array([not row["corrected"] for row in rows])
                    others.append(right[untouched].mean())
                    everything.append(right.mean())
                how = "least certain" if least_certain else "at random"
                sys.stdout.write(
                    f"  weight {weight:g}, {per_class} per class {how}: not corrected {100 * np.mean(others):.2f}, "
                    f"all {100 * np.mean(everything):.2f}\n"
                )


def estimates(real: Path, folder: Path) -> None:
    """Print the estimates of two overlapping steps of every domain, and of all at once, from every other domain."""
    paths_of = [str(path).split("/") for path in np.load(real / "vision.npz")["paths"]]
    domains, names = dict.fromkeys(p[0] for p in paths_of), sorted({p[1] for p in paths_of})
    third = len(names) // 3
    a, b, c = names[: 2 * third], names[third:], [*names[:third], *names[2 * third :]]
    errors = []
    for source in domains:
        plan = {}
        for number, camera in enumerate(domain for domain in domains if domain != source):
            lists = ((a, b), (c, names), (b, c))[number]
            plan |= {f"s{2 * number + part}": (camera, lists[part], part, 2) for part in (0, 1)}
        write_project(real, folder / source, source, plan)
        with chdir(folder / source):
            prepare(source, (*plan, "together"))
            for step in (*(f"camera-{step}" for step in plan), "once-together"):
                stage(f"step {step}")
                true, estimate, _ = step_accuracy(step)
                errors.append(estimate - true)
                sys.stdout.write(f"  {source}, {step}: accuracy {true:.1f}, estimated {estimate:.1f}\n")
    sys.stdout.write(f"  off by {np.mean(np.abs(errors)):.1f} on average, {min(errors):.1f} to {max(errors):.1f}\n")


def new_classes(real: Path, folder: Path) -> None:
    """Print the accuracy on images of two classes: by CLIP alone, where the source lacks them, where it has them."""
    names = sorted({str(path).split("/")[1] for path in np.load(real / "vision.npz")["paths"]})
    for number, (source, cameras, new) in enumerate(NEW_CLASSES[real.name]):
        for lacks in (new, ()):
            steps = {f"w{i}": (camera, names, 0, 1) for i, camera in enumerate(cameras)}
            project = folder / f"{number}-{'new' if lacks else 'known'}"
            write_project(real, project, source, steps, lacks)
            with chdir(project):
                prepare(source, list(steps))
                for step, camera in zip(steps, cameras, strict=True):
                    stage(f"step camera-{step}")
                    with paths.step_images("streams", f"camera-{step}").open(newline="") as file:
                        rows = [row for row in csv.DictReader(file) if row["path"].split("/")[1] in new]
                    right = {
                        column: 100 * np.mean([row[column] == row["path"].split("/")[1] for row in rows])
                        for column in ("clip", "class")
                    }
                    sys.stdout.write(
                        f"  {source}, {camera}: {', '.join(new)} {'new' if lacks else 'known'}, {len(rows)} images: "
                        f"CLIP alone {right['clip']:.1f}, stream {right['class']:.1f}\n"
                    )


if __name__ == "__main__" and sys.argv[1] in ("estimates", "new-classes"):
    measure = estimates if sys.argv[1] == "estimates" else new_classes
    measure(Path(sys.argv[2]).absolute(), Path(sys.argv[3]).absolute())
elif __name__ == "__main__":
    real, folder = Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute()
    names = sorted({str(path).split("/")[1] for path in np.load(real / "vision.npz")["paths"]})
    third = len(names) // 3
    a, b, c = names[: 2 * third], names[third:], [*names[:third], *names[2 * third :]]
    if "pacs" in real.name:
        plan = {"w1": ("photo", a, 0, 1), "w2": ("art_painting", b, 0, 1), "w3": ("art_painting", c, 0, 1)}
        run(real, folder, "cartoon", plan)
    else:
        run(
            real,
            folder,
            "amazon",
            {
                "w1": ("webcam", a, 0, 2),
                "w2": ("dslr", b, 0, 1),
                "w3": ("webcam", c, 1, 2),
                "w4": ("caltech10", names, 0, 1),
            },
        )
