"""Stage `probe@DOMAIN`: measure how good a domain's features are, before any adaptation.

Writes results/SUITE/probes/DOMAIN.json: the zero-shot accuracy of CLIP, eq. (1); the accuracy of the vision model's
nearest class mean (means of train images, scored on test images, averaged over the seeds); and the mean cosine between
an image's embedding in each view and in the original. Reads labels, so no stage that adapts depends on it.
"""

import sys
from typing import Any

import numpy as np

from pipeline import paths
from pipeline.datasets.task_files import is_labelled
from pipeline.errors import counted
from pipeline.method.rows import unit_rows
from pipeline.method.zero_shot import class_means, cosines, nearest_mean
from pipeline.problem.domain import LabelledDomain
from pipeline.report.results import ProbeFigures, guess_warnings
from pipeline.stage import Context, stage
from pipeline.store.embedding_store import EmbeddingStore
from pipeline.write_aside import write_json


@stage(per=("domains",), reads=("language", "vision"))
def probe(context: Context, name: str) -> str:
    """Write results/SUITE/probes/DOMAIN.json."""
    # not `context.project`, which imports problems: this stage would run again when the method's code changes
    domain = LabelledDomain(name, context.params.vision, context.params.language)
    labelled = is_labelled(domain.manifest)
    figures: dict[str, Any] = {
        "images": domain.vision.rows,
        "test_images": 0,
        "classes": len(domain.classes),
        **dict.fromkeys(("zero_shot", "nearest_mean", "nearest_mean_sd")),
        "view_cosine": view_cosines(domain.vision),
    }
    if labelled:
        figures |= accuracies(domain)
    write_json(paths.probe(context.suite, name), figures)
    if not labelled:
        return f"{counted(figures['images'], 'image')}, no labels: no accuracy"
    for warning in guess_warnings(ProbeFigures(**figures), name):
        sys.stderr.write(f"probe {name}: warning: {warning}\n")
    return (
        f"{counted(figures['images'], 'image')}, zero-shot {figures['zero_shot']:.1%}, "
        f"nearest mean {figures['nearest_mean']:.1%} of {figures['test_images']} test images per seed"
    )


def accuracies(domain: LabelledDomain) -> dict[str, Any]:
    """Return the figures that require labels."""
    # the logit scale of eq. (1) does not change the argmax
    zero_shot = cosines(domain.clip.read("original"), domain.prompts.text).argmax(axis=1)
    nearest = [nearest_mean_accuracy(domain, seed) for seed in domain.seeds]
    return {
        "test_images": max(len(domain.test_index(seed)) for seed in domain.seeds),
        "zero_shot": round(float(np.mean(zero_shot == domain.labels)), 4),
        "nearest_mean": round(float(np.mean(nearest)), 4),
        "nearest_mean_sd": round(float(np.std(nearest)), 4),
    }


def nearest_mean_accuracy(domain: LabelledDomain, seed: int) -> float:
    """Return a seed's accuracy of classifying test images by the nearest class mean of the train images."""
    rows, labels = domain.vision.read("original"), domain.labels
    train, test = domain.train_index(seed), domain.test_index(seed)
    means = class_means(rows[train], labels[train], len(domain.classes))
    return float(np.mean(nearest_mean(rows[test], means) == labels[test]))


def view_cosines(store: EmbeddingStore) -> dict[str, float]:
    """Return for each augmented view the mean cosine between an image's embedding in it and in the original."""
    original = unit_rows(store.read("original"))
    return {
        view: round(float(np.mean(np.sum(original * unit_rows(store.read(view)), axis=1))), 4)
        for view in store.views
        if view != "original"
    }
