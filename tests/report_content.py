"""Invented content of a report: three problems, one with awkward class names and one with many classes."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from pipeline import paths
from pipeline.method.evaluation import BRANCHES
from pipeline.report.page.content import ProblemResults
from pipeline.report.page.pictures import ProblemPictures, add_picture
from pipeline.report.results import CHOICES, Comparison, MethodFigures, ProblemFigures, Sweeps
from pipeline.report.suite import SuiteResults
from pipeline.report.suite_tables import comparison_table, headline_table

AWKWARD = ["</script><script>window.hacked=1</script>", '<img src=x onerror="window.hacked=1">', "it's", "c&a"]
MANY = [f"class {number:03d}" for number in range(60)]
METHODS = {
    "clip_zero_shot": ("CLIP zero-shot", "reference"),
    "source_only": ("source model only", "reference"),
    "paper": ("REFEREE as printed", "referee"),
    "calibrated": ("REFEREE calibrated", "referee"),
    "ewc-head": ("EWC", "head"),
}
PLAIN = ["ant", "bee", "cat", "dog"]
CAPTION = "n = 30 test images, 2 seeds, D=50"
SELECTED = pd.DataFrame(
    [
        (CAPTION, "sigma", "0.0001", 90.0, -0.2, 0.9),
        (CAPTION, "sigma", "0.01", 85.0, -0.1, 0.8),
        (CAPTION, "class_priors", "balanced", 90.0, -0.2, 0.8),
        (CAPTION, "class_priors", "counted", 91.0, -0.1, 0.7),
    ],
    columns=["of", "setting", "value", "A_T", "certainty", "views_agree"],
)
CHOSEN = pd.DataFrame(
    [
        ("sigma", "certainty", "0.01", "0.0001", 5.0, "-1.00"),
        ("sigma", "views_agree", "0.0001", "0.0001", 0.0, "1.00"),
        ("class_priors", "certainty", "counted", "counted", 0.0, "1.00"),
        ("class_priors", "views_agree", "balanced", "counted", 1.0, "-1.00"),
    ],
    columns=list(CHOICES),
)
MADE_WITH = {"rff.D": 50, "rff.sigma": 1e-4, "method.variant": "calibrated", "method.options": {}}
ACCURACY = {
    "D": pd.DataFrame({"D": [50.0, 500.0], "A_T": [80.0, 90.0], "sd": [2.0, 1.0]}),
    "sigma": pd.DataFrame({"sigma": [1e-4, 1e-2], "A_T": [90.0, 85.0], "sd": [1.0, 1.5]}),
}
SWEEPS = Sweeps(
    ACCURACY, SELECTED, CHOSEN, dict.fromkeys(("accuracy over D", "accuracy over sigma", "values chosen"), MADE_WITH)
)

MATRIX = [99.0, 97.0, 99.0, 95.0, 97.0, 99.0]


def figures(base: float) -> dict[str, MethodFigures]:
    """Return figures of the methods, each four points higher than the one before."""
    by_method = {}
    for i, (method, (title, group)) in enumerate(METHODS.items()):
        mean = base + 4 * i
        figure = {"A_T": mean, "A_T_sd": 0.5, "A_T_per_seed": (mean, mean)}
        by_method[method] = MethodFigures(title=title, group=group, source_samples=method == "ewc-head", **figure)
    return by_method


def problem(name: str, classes: list[str], base: float, *, swept: bool = False) -> ProblemResults:
    """Return the results of a problem with three tasks."""
    source, target = name.split("-")
    accuracy = {"A_T": base + 12, "A_T_sd": 0.5, "source_only_A_T": base + 4, "clip_only_A_T": base}
    others = {
        "forgetting": 2.0,
        "pseudo_label_accuracy": 91.0,
        "weight_auroc": 88.5,
        "ece": dict.fromkeys(BRANCHES, 3.2),
    }
    metrics = ProblemFigures(test_images=30, classes=len(classes), made_with=MADE_WITH, **accuracy, **others)
    compared = Comparison(made_with=MADE_WITH, test_images=30, methods=figures(base))
    sweeps = SWEEPS if swept else None
    return ProblemResults("toy", name, f"{source} → {target}", target, metrics, tables(classes), compared, sweeps)


def tables(classes: list[str]) -> dict[str, pd.DataFrame]:
    """Return the tables of a problem; every fifth image is predicted as the first class."""
    labels = [classes[i % len(classes)] for i in range(4 * len(classes))]
    guesses = [classes[0] if i % 5 == 0 else label for i, label in enumerate(labels)]
    pairs, total = Counter(zip(labels, guesses, strict=True)), Counter(labels)
    points = np.random.default_rng(len(classes)).normal(size=(len(labels), 2)).round(3)
    task = np.array([1, 2, 3])
    actual, predicted = zip(*pairs, strict=True)
    share = [round(100 * n / total[name], 2) for (name, _), n in pairs.items()]
    confidence_bin = {"from": 80.0, "to": 86.67, "images": 30, "confidence": 83.0, "accuracy": 78.0}
    captioned = {
        "tasks": {
            "after_task": task,
            "adapted": 99.0 - task,
            "sd": 0.8,
            "source_only": 95.0 - 3 * task,
            "clip_only": 80.0,
        },
        "accuracy_matrix": {"after_task": [1, 2, 2, 3, 3, 3], "task": [1, 1, 2, 1, 2, 3], "accuracy": MATRIX},
        "classes": {"class": classes, "accuracy": "50.0"},
        "confusion": {"actual": actual, "predicted": predicted, "images": list(pairs.values()), "share": share},
        "reliability": {"branch": list(BRANCHES), **confidence_bin},
    }
    others = {
        "pseudo_labels": {"task": task, "accuracy": "91.0", "kept": 50.0},
        "forgetting": {"task": [1, 2], "best": [99.0, 99.0], "final": [95.0, 97.0], "forgotten": [4.0, 2.0]},
        "weights": {
            "lowest": [0.1, 0.5],
            "highest": [0.5, 0.99],
            "weight": [0.3, 0.8],
            "images": 40,
            "accuracy": [70.0, 99.0],
        },
        "map": {"x": points[:, 0], "y": points[:, 1], "class": labels, "split": "test", "predicted": guesses},
    }
    frames = {name: pd.DataFrame({"of": CAPTION, **columns}) for name, columns in captioned.items()}
    frames |= {name: pd.DataFrame(columns) for name, columns in others.items()}
    shown = {"role": ["mistake", "mistake", "example"], "path": [f"data/{i}.png" for i in (1, 2, 0)]}
    shown |= {"sha256": "ab" * 32, "actual": [classes[i % len(classes)] for i in (1, 2, 0)], "seed": 0}
    for branch in BRANCHES:
        shown |= {f"{branch}_says": classes[0], f"{branch}_confidence": 97.5}
    return frames | {"shown": pd.DataFrame(shown)}


def write_results(results: ProblemResults) -> None:
    """Write the files that the stages write about a problem, below the current folder."""
    key = ("toy", results.name)
    folder, sweeps, selection = paths.problem_tables(*key), paths.sensitivity(*key), paths.selection(*key)
    for path in (folder, sweeps, selection, paths.evaluation(*key).parent):
        path.mkdir(parents=True, exist_ok=True)
    paths.evaluation(*key).write_text(results.metrics.model_dump_json())
    compared = results.comparison.model_dump_json(exclude={"methods": {"__all__": {"failed"}}})
    paths.comparison(*key).write_text(compared, encoding="utf-8")
    for name, table in results.tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    if results.sweeps:
        for name, sweep in results.sweeps.accuracy.items():
            sweep.assign(of=CAPTION)[["of", *sweep]].to_csv(sweeps / f"{name}.csv", index=False)
            (sweeps / f"{name}.json").write_text(json.dumps({"made_with": MADE_WITH, "values": []}))
        (selection / "made_with.json").write_text(json.dumps(MADE_WITH))
        results.sweeps.values.to_csv(selection / "values.csv", index=False)
        results.sweeps.choices.to_csv(selection / "choices.csv", index=False)


def pictures(album: dict[str, str]) -> ProblemPictures:
    """Return pictures of the mistakes and of the views of one image, each in a different colour."""

    def add(colour: int) -> str:
        return add_picture(album, np.full((24, 24, 3), colour, np.uint8), 64)

    views = {"data/0.png": {view: add(40 * i) for i, view in enumerate(("original", "zeros", "rand"))}}
    return ProblemPictures({"data/1.png": add(200), "data/2.png": add(220)}, views, "", "As the model sees it.")


def report_content() -> dict[str, Any]:
    """Return the content of a page, like the stage `report`; the last problem has no pictures."""
    problems = [
        problem("left-right", AWKWARD, 70, swept=True),
        problem("left-many", MANY, 60),
        problem("right-left", PLAIN, 50),
    ]
    suite = SuiteResults("toy", {p.name: p.comparison for p in problems}, {p.name: "toy" for p in problems})
    album: dict[str, str] = {}
    shown_pictures = {p.name: pictures(album) for p in problems[:2]}
    shown_pictures["right-left"] = ProblemPictures(missing="No pictures: the images of left are not here.")
    return {
        "suite": "toy",
        "variant": "calibrated",
        "warnings": [],
        "headline": headline_table(suite),
        "methods": comparison_table(suite).parts(),
        "problems": problems,
        "pictures": shown_pictures,
        "streams": [],
        "album": album,
        "params": {"suite": "toy", "rff": {"D": 1000, "sigma": 1e-4}},
        "revision": "0123abc",
        "hashes": [("cache/embeddings/left/vit.zarr", "embed@left-vit", "feed.dir", 1234)],
        "figures": "",
    }
