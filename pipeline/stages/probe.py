"""Stage `probe@DOMAIN`: are these features any good? First figures of a domain, straight from the caches.

Zero-shot accuracy of the language model (1), nearest-class-mean accuracy of the vision model (train images' means,
test images scored, mean over the seeds), and how far each view moves an embedding. It reads labels, and nothing that
adapts depends on it.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.datasets.manifest_files import read_images, read_labels, read_tasks
from pipeline.errors import exits_cleanly
from pipeline.method.nearest_mean import class_means, nearest_mean
from pipeline.method.zero_shot import unit_rows, zero_shot_probabilities
from pipeline.params import load_params, named
from pipeline.stages import places
from pipeline.store.embedding_store import EmbeddingStore, open_embeddings, rows_digest
from pipeline.store.prompt_store import open_prompts
from pipeline.write_aside import write_aside


def nearest_mean_accuracy(
    x: npt.NDArray[np.floating],
    labels: npt.NDArray[np.int64],
    test: npt.NDArray[np.bool_],
    classes: int,
) -> float:
    """Return the accuracy on the ``test`` (n,) rows of means taken over the others."""
    predicted = nearest_mean(x[test], class_means(x[~test], labels[~test], classes))
    return float(np.mean(predicted == labels[test]))


def view_cosines(store: EmbeddingStore) -> dict[str, float]:
    """Return for each augmented view the mean cosine between an image's embedding in it and the original's."""
    original = unit_rows(store.read("original"))
    return {
        view: round(float(np.mean(np.sum(original * unit_rows(store.read(view)), axis=1))), 4)
        for view in store.views
        if view != "original"
    }


def figures(domain: str, vision: str, language: str) -> dict[str, Any]:
    """Return the figures of one domain."""
    folder = places.manifest_folder(domain)
    images = read_images(folder / "images.csv")
    tasks = read_tasks(folder / "tasks.csv", rows=len(images))
    labels = np.array([row.label for row in read_labels(folder / "labels.csv", images=images)])
    prompts = open_prompts(places.prompts(domain))
    same_rows = {"rows_digest": rows_digest(image.sha256 for image in images)}
    seen, said = (open_embeddings(places.embeddings(domain, model)) for model in (vision, language))
    for store in (seen, said):
        store.require(same_rows)

    x = seen.read("original")
    zero_shot = zero_shot_probabilities(said.read("original"), prompts.text, prompts.logit_scale)
    nearest = [
        nearest_mean_accuracy(x, labels, tasks.test[:, seed], len(prompts.classes))
        for seed in range(len(tasks.seeds))
    ]
    return {
        "images": len(images),
        "zero_shot": round(float(np.mean(zero_shot.argmax(axis=1) == labels)), 4),
        "nearest_mean": round(float(np.mean(nearest)), 4),
        "nearest_mean_sd": round(float(np.std(nearest)), 4),
        "view_cosine": view_cosines(seen),
    }


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.probe", description=__doc__)
    parser.add_argument("domain")
    domain = parser.parse_args(argv).domain
    params = load_params()
    named("domains", params.domains, domain)
    made = figures(domain, params.vision, params.language)
    with write_aside(places.probe(domain)) as aside:
        aside.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(
        f"probe {domain}: {made['images']} images, zero-shot {made['zero_shot']:.1%}, "
        f"nearest mean {made['nearest_mean']:.1%}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
