"""The content of a report, made up: three problems, one with awkward class names, one with many classes."""

from __future__ import annotations

import numpy as np

from pipeline.method.evaluation import BRANCHES
from pipeline.report.comparison_files import Figures
from pipeline.report.page.page import PageContent
from pipeline.report.page.pictures import Album, ProblemPictures, data_address
from pipeline.report.page.problem_results import ProblemResults
from pipeline.report.page.provenance import Provenance, StoreHash
from pipeline.report.suite_results import Suite
from pipeline.report.suite_tables import comparison_table, headline_table

AWKWARD = [
    "</script><script>window.hacked=1</script>",
    '<img src=x onerror="window.hacked=1">',
    "it's",
    "c&a",
]
MANY = [f"class {number:03d}" for number in range(60)]
METHODS = {
    "clip_zero_shot": ("CLIP zero-shot", "reference"),
    "source_only": ("source model only", "reference"),
    "paper": ("REFEREE as printed", "referee"),
    "calibrated": ("REFEREE calibrated", "referee"),
    "ewc-head": ("EWC", "head"),
}
PLAIN = ["ant", "bee", "cat", "dog"]


def figures(base: float) -> dict[str, Figures]:
    """Return the methods' figures, rising by four points from method to method."""
    return {
        method: Figures(title, group, method == "ewc-head", base + 4 * i, 0.5, (base + 4 * i,) * 2)
        for i, (method, (title, group)) in enumerate(METHODS.items())
    }


def problem(name: str, classes: list[str], base: float, *, swept: bool = False) -> ProblemResults:
    """Return a problem's results, of three tasks."""
    source, target = name.split("-")
    rng = np.random.default_rng(len(classes))
    labels = [classes[i % len(classes)] for i in range(4 * len(classes))]
    guesses = [classes[0] if i % 5 == 0 else label for i, label in enumerate(labels)]
    sweep = {
        "D": {50.0: (80.0, 2.0), 500.0: (90.0, 1.0)},
        "sigma": {1e-4: (90.0, 1.0), 1e-2: (85.0, 1.5)},
    }
    return ProblemResults(
        name=name,
        source=source,
        target=target,
        metrics={
            "A_T": base + 12,
            "A_T_sd": 0.5,
            "forgetting": 2.0,
            "source_only_A_T": base + 4,
            "clip_only_A_T": base,
            "pseudo_label_accuracy": 91.0,
            "weight_auroc": 88.5,
            "ece": dict.fromkeys(BRANCHES, 3.2),
        },
        tasks=[
            {
                "after_task": str(k),
                "adapted": str(99 - k),
                "sd": "0.8",
                "source_only": str(95 - 3 * k),
                "clip_only": "80",
            }
            for k in (1, 2, 3)
        ],
        matrix=[
            {"after_task": str(k), "task": str(j), "accuracy": str(99 - 2 * (k - j))}
            for k in (1, 2, 3)
            for j in range(1, k + 1)
        ],
        forgetting=[
            {"task": "1", "best": "99", "final": "95", "forgotten": "4"},
            {"task": "2", "best": "99", "final": "97", "forgotten": "2"},
        ],
        classes=[{"class": name} for name in classes],
        confusion=[{"actual": a, "predicted": p} for a, p in zip(labels, guesses, strict=True)],
        reliability=[
            {
                "branch": branch,
                "from": "80",
                "to": "86.67",
                "images": "30",
                "confidence": "83",
                "accuracy": "78",
            }
            for branch in BRANCHES
        ],
        weights=[
            {"lowest": "0.1", "highest": "0.5", "weight": "0.3", "images": "40", "accuracy": "70"},
            {"lowest": "0.5", "highest": "0.99", "weight": "0.8", "images": "40", "accuracy": "99"},
        ],
        shown=[
            shown("mistake", classes, 1),
            shown("mistake", classes, 2),
            shown("example", classes, 0),
        ],
        map=[
            {"x": f"{x:.3f}", "y": f"{y:.3f}", "class": label, "split": "test", "predicted": guess}
            for (x, y), label, guess in zip(
                rng.normal(size=(len(labels), 2)), labels, guesses, strict=True
            )
        ],
        methods=figures(base),
        sweeps=sweep if swept else {},
    )


def shown(role: str, classes: list[str], i: int) -> dict[str, str]:
    """Return a row of shown.csv."""
    said = {
        f"{b}_{what}": classes[0] if what == "says" else "97.5"
        for b in BRANCHES
        for what in ("says", "confidence")
    }
    return {
        "role": role,
        "path": f"data/{i}.png",
        "sha256": "ab" * 32,
        "actual": classes[i % len(classes)],
        "seed": "0",
        **said,
    }


def pictures(album: Album) -> ProblemPictures:
    """Return pictures of the mistakes and of one image's views, each of another colour."""

    def add(colour: int) -> str:
        return album.add(data_address(np.full((24, 24, 3), colour, np.uint8), 64))

    views = {
        "data/0.png": {view: add(40 * i) for i, view in enumerate(("original", "zeros", "rand"))}
    }
    return ProblemPictures(
        {"data/1.png": add(200), "data/2.png": add(220)}, views, "", "As the model sees it."
    )


def report_content(drawing: str = "") -> PageContent:
    """Return the content; the last problem has no pictures."""
    problems = [
        problem("left-right", AWKWARD, 70, swept=True),
        problem("left-many", MANY, 60),
        problem("right-left", PLAIN, 50),
    ]
    suite = Suite("toy", {p.name: p.methods for p in problems}, {p.name: "toy" for p in problems})
    album = Album()
    shown_pictures = {p.name: pictures(album) for p in problems[:2]}
    shown_pictures["right-left"] = ProblemPictures(
        missing="No pictures: the images of left are not here."
    )
    return PageContent(
        suite="toy",
        variant="calibrated",
        headline=headline_table(suite),
        methods=comparison_table(suite, []).parts(),
        problems=problems,
        pictures=shown_pictures,
        album=album.pictures,
        provenance=Provenance(
            {"suite": "toy", "rff": {"D": 1000, "sigma": 1e-4}},
            "0123abc",
            [StoreHash("cache/embeddings/left/vit.zarr", "embed@left-vit", "feed.dir", 1234)],
        ),
        drawing=drawing,
    )
