"""Evaluate streams on real features with labels that the stages do not see.

    python -m benchmarks.streams DATA FOLDER
    python -m benchmarks.streams estimates DATA FOLDER
    python -m benchmarks.streams new-classes DATA FOLDER

DATA is a folder pacs3 or office_caltech10 of features, as described in suites/. The real stages run in a project of
imported features, which is written into FOLDER. The first form compares a stream with all images at once and measures
the gain from corrections. Its three or four steps have overlapping classes, and the second camera's rows are deleted
before the third step. The others evaluate estimated accuracies, and classes that the source lacks.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.imported_project import VIEWS, ImportedProject, default_params
from pipeline import paths
from pipeline.config.params import load_params
from pipeline.datasets.manifest_files import read_images
from pipeline.method.kernel_rows import kernel_rows
from pipeline.method.prediction import predict
from pipeline.method.rows import UnlabelledRows
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import CALIBRATED
from pipeline.method.zero_shot import cosines
from pipeline.stage import main, open_project
from pipeline.store.basis_file import read_bases
from pipeline.store.stream_state import read_stream_state

# for each suite: source, domains of two steps, two classes that the source lacks
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


class Features:
    """The features of images DOMAIN/CLASS/FILE, and three overlapping lists of classes."""

    def __init__(self, folder: Path) -> None:
        self.vision, self.clip = (np.load(folder / name) for name in ("vision.npz", "clip_space.npz"))
        self.images = [str(path).split("/") for path in self.vision["paths"]]
        self.classes = sorted({name for _, name, _ in self.images})
        third = len(self.classes) // 3
        first, second, last = self.classes[:third], self.classes[third : 2 * third], self.classes[2 * third :]
        self.overlapping = [*first, *second], [*second, *last], [*first, *last]


def write_project(data: Features, folder: Path, source: str, steps: Mapping[str, Any], new: Sequence[str] = ()) -> None:
    """Write features and suite: the source without ``new`` classes, a domain per step, and all steps together."""
    rows, labels = [], []
    for row, (domain, name, file) in enumerate(data.images):
        if domain == source and name not in new:
            rows.append(row)
            labels.append(f"{source}/{name}/{file}")
        for number, (step, (camera, classes, part, parts)) in enumerate(steps.items()):
            if domain == camera and name in classes and row % parts == part:
                rows += [row, row]
                labels += [f"{key}/{name}/{number}_{file}" for key in (step, "together")]
    folder.mkdir(parents=True, exist_ok=True)
    keys = dict(zip(VIEWS, ("original", "zeros", "rand_matched"), strict=True))
    np.savez(folder / "vision.npz", paths=labels, **{view: data.vision[key][rows] for view, key in keys.items()})
    prompts = {key: data.clip[key] for key in ("text", "class_names", "logit_scale")}
    np.savez(folder / "clip.npz", paths=labels, original=data.clip["original"][rows], **prompts)
    domain = {"dataset": "real", "images": "vision.npz", "views": VIEWS, "templates": ["a {}"]}
    names = [str(name) for name in data.clip["class_names"]]
    before, entries = f"source/{source}", {}
    for step, (_, classes, _, _) in steps.items():
        entries[f"camera-{step}"] = entry(source, step, sorted(classes), before)
        before = f"streams/camera-{step}"
    all_classes = sorted({name for _, classes, _, _ in steps.values() for name in classes})
    entries["once-together"] = entry(source, "together", all_classes, f"source/{source}")
    no_problems = {"sources": {source: {}}, "problems": {}, "swept": {}}
    ImportedProject(folder).set(default_params(len(names)) | no_problems | {
        "suite": "streams",
        "datasets": {
            key: {"classes_per_task": len(names), "class_names": {n: n for n in names if n not in missing}}
            for key, missing in (("real", new), ("steps", ()))
        },
        "domains": {
            source: domain,
            **{key: {**domain, "dataset": "steps", "labels": "none"} for key in (*steps, "together")},
        },
        "steps": entries,
    })  # fmt: skip
    (folder / "none.csv").write_text("path,class\n")


def entry(source: str, domain: str, classes: Sequence[str], before: str) -> dict[str, Any]:
    """Return an entry of `steps`."""
    return {"source": source, "domain": domain, "classes": classes, "before": before, "corrections": "none.csv"}


def stage(command: str) -> None:
    """Run a stage, which must succeed."""
    if main(command.split()):
        raise SystemExit(command)


def prepare(source: str, domains: Sequence[str]) -> None:
    """Run everything before the steps."""
    for domain in (source, *domains):
        for command in ("manifest {}", "order {}", "tasks {}", "embed {} vit", "embed {} clip", "prompts {}"):
            stage(command.format(domain))
    stage(f"source {source}")


def step_table(step: str) -> pd.DataFrame:
    """Return the table of a step with the true class of every image, as text."""
    table = pd.read_csv(paths.step_images("streams", step), dtype=str, keep_default_na=False)
    return table.assign(truth=table["path"].str.split("/").str[1])


def accuracy(table: pd.DataFrame, column: str = "class") -> float:
    """Return the accuracy of a column, in percent."""
    return 100 * float((table[column] == table["truth"]).mean())


def run_step(step: str) -> tuple[float, float, float]:
    """Run a step; return the true accuracy of its table, the estimated one and the mean confidence, in percent."""
    stage(f"step {step}")
    figures = json.loads(paths.step_figures("streams", step).read_text())
    return accuracy(step_table(step)), 100 * figures["estimated_accuracy"], 100 * figures["mean_confidence"]


def model_accuracy(step: str, domain: str) -> float:
    """Return the accuracy over all classes seen, in percent, of the model after a step on all images of a domain."""
    state, target = read_stream_state(paths.stream_state(step)), open_project(load_params()).domain(domain)
    clip = target.clip.read("original")
    similarity = cosines(clip, state.prompts.text)
    rows = UnlabelledRows({view: target.vision.read(view) for view in CALIBRATED.views}, similarity, clip)
    basis = read_bases(paths.bases(state.origin.source)).basis(0)
    means = state.statistics.prior_means
    prediction = predict(
        kernel_rows(basis, rows, CALIBRATED.clip_in_kernel),
        similarity,
        source=SourceModel(means, state.classifier, means),
        classifier=state.classifier,
        options=CALIBRATED,
        clip_scale=state.prompts.logit_scale,
    )
    truth = [image.path.split("/")[1] for image in read_images(paths.manifest(domain))]
    return 100 * float(np.mean([state.classes[c] == name for c, name in zip(prediction.label, truth, strict=True)]))


def run(data: Features, folder: Path, source: str, steps: Mapping[str, Any]) -> None:
    """Print the accuracies of a stream and of all images at once, and the gains from corrections."""
    if not (folder / "suite.yaml").exists():
        write_project(data, folder, source, steps)
    with chdir(folder):
        prepare(source, (*steps, "together"))
        for step in (*(f"camera-{step}" for step in steps), "once-together"):
            true, estimate, confidence = run_step(step)
            sys.stdout.write(f"  {step}: accuracy {true:.1f}, estimated {estimate:.1f}, confidence {confidence:.1f}\n")
            if step == f"camera-{list(steps)[1]}":  # delete the rows of the second camera
                for path in (paths.manifest("w2"), paths.prompts("w2"), Path("cache/embeddings/w2")):
                    shutil.rmtree(path)
        last = f"camera-{list(steps)[-1]}"
        for step in (last, "once-together"):
            sys.stdout.write(f"  model after {step} on all images: {model_accuracy(step, 'together'):.1f}\n")
        corrections("once-together")


def corrections(step: str) -> None:
    """Print the accuracy after 1, 3 and 5 corrections per class, on uncorrected images and on all images."""
    stage(f"step {step}")
    first = step_table(step)
    for weight in (1.0, 5.0, 20.0):
        for per_class in (1, 3, 5):
            for choice, seeds in (("at random", (0, 1, 2)), ("least certain", (None,))):
                tables = [corrected(step, first, per_class, seed, weight) for seed in seeds]
                uncorrected = np.mean([accuracy(table[table["corrected"] == ""]) for table in tables])
                overall = np.mean([accuracy(table) for table in tables])
                sys.stdout.write(
                    f"  weight {weight:g}, {per_class} per class {choice}: not corrected {uncorrected:.2f}, "
                    f"all {overall:.2f}\n"
                )


def corrected(step: str, first: pd.DataFrame, per_class: int, seed: int | None, weight: float) -> pd.DataFrame:
    """Run a step again with ``per_class`` corrections per class, from the top of its table or drawn by a seed."""
    order = list(range(len(first)))
    if seed is not None:
        np.random.default_rng(seed).shuffle(order)
    chosen = first.iloc[order[: per_class * first["truth"].nunique()]]
    chosen[["path", "truth"]].rename(columns={"truth": "class"}).to_csv("some.csv", index=False)
    project = ImportedProject(Path())
    steps = project.read()["steps"]
    project.change(steps=steps | {step: steps[step] | {"corrections": "some.csv", "correction_weight": weight}})
    stage(f"step {step}")
    project.change(steps=steps)
    return step_table(step)


def estimates(data: Features, folder: Path) -> None:
    """Print true and estimated accuracies, from every source, of two steps per other domain and of all at once."""
    domains = dict.fromkeys(domain for domain, _, _ in data.images)
    a, b, c = data.overlapping
    errors = []
    for source in domains:
        plan = {}
        for number, camera in enumerate(domain for domain in domains if domain != source):
            lists = ((a, b), (c, data.classes), (b, c))[number]
            plan |= {f"s{2 * number + part}": (camera, lists[part], part, 2) for part in (0, 1)}
        write_project(data, folder / source, source, plan)
        with chdir(folder / source):
            prepare(source, (*plan, "together"))
            for step in (*(f"camera-{step}" for step in plan), "once-together"):
                true, estimate, _ = run_step(step)
                errors.append(estimate - true)
                sys.stdout.write(f"  {source}, {step}: accuracy {true:.1f}, estimated {estimate:.1f}\n")
    sys.stdout.write(f"  off by {np.mean(np.abs(errors)):.1f} on average, {min(errors):.1f} to {max(errors):.1f}\n")


def new_classes(data: Features, folder: Path, plans: Sequence[Any]) -> None:
    """Print the accuracy on images of two classes that the source lacks or has, by CLIP alone and by the stream."""
    for (number, (source, cameras, new)), known in product(enumerate(plans), ("new", "known")):
        steps = {f"w{i}": (camera, data.classes, 0, 1) for i, camera in enumerate(cameras)}
        project = folder / f"{number}-{known}"
        write_project(data, project, source, steps, () if known == "known" else new)
        with chdir(project):
            prepare(source, list(steps))
            for step, camera in zip(steps, cameras, strict=True):
                stage(f"step camera-{step}")
                table = step_table(f"camera-{step}")
                table = table[table["truth"].isin(new)]
                sys.stdout.write(
                    f"  {source}, {camera}: {', '.join(new)} {known}, {len(table)} images: "
                    f"CLIP alone {accuracy(table, 'clip'):.1f}, stream {accuracy(table):.1f}\n"
                )


if __name__ == "__main__":
    *measure, real, folder = sys.argv[1:]
    data, name, folder = Features(Path(real)), Path(real).name, Path(folder).absolute()
    a, b, c = data.overlapping
    if measure == ["estimates"]:
        estimates(data, folder)
    elif measure == ["new-classes"]:
        new_classes(data, folder, NEW_CLASSES[name])
    elif "pacs" in name:
        plan = {"w1": ("photo", a, 0, 1), "w2": ("art_painting", b, 0, 1), "w3": ("art_painting", c, 0, 1)}
        run(data, folder, "cartoon", plan)
    else:
        cameras = {"w1": ("webcam", a, 0, 2), "w2": ("dslr", b, 0, 1), "w3": ("webcam", c, 1, 2)}
        run(data, folder, "amazon", cameras | {"w4": ("caltech10", data.classes, 0, 1)})
