"""Stage `manifest@DOMAIN`: list a domain's images, with tasks, splits and, apart, labels.

Writes {images,tasks,classes,labels}.csv, a digest beside each, and report.json into cache/manifests/DOMAIN.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pipeline import paths
from pipeline.datasets import manifest_files
from pipeline.datasets.manifest import build, build_unlabelled
from pipeline.datasets.tasks import task_of_classes
from pipeline.encoders.image_decoding import read_image
from pipeline.errors import listed
from pipeline.extraction.progress import Progress
from pipeline.stage import Context, image_source, stage


@stage(per=("domains",), reads=("data", "datasets", "domains", "lists"), version=2)
def manifest(context: Context, name: str) -> str:
    """Write cache/manifests/DOMAIN."""
    params = context.params
    domain, data = params.domains[name], params.data
    dataset = params.datasets[domain.dataset]
    read = partial(read_image, max_pixels=data.max_pixels)
    source = image_source(params, name, paths.image_list)
    found = source.find()
    with Progress(f"manifest {name}", len(found.images)) as progress:
        how: dict[str, Any] = {
            "domain": name,
            "folder": domain.images,
            "seeds": data.seeds,
            "read_facts": read if source.has_bytes else None,
            "unreadable": data.unreadable,
            "workers": params.runtime.workers,
            "by_content": name in data.private,
            "on_read": partial(progress.update, 1),
        }
        order = {"tasks": dataset.tasks or found.tasks(), "order_seed": dataset.class_order_seed}
        if domain.labels == "none":
            task_of = task_of_classes(dataset.class_names, dataset.classes_per_task, **order)
            built = build_unlabelled(found, task_of=task_of, **how)
        else:
            built = build(
                found,
                class_names=dataset.class_names or found.classes,
                classes_per_task=dataset.classes_per_task,
                **order,
                test_fraction=data.test_fraction,
                empty_class=data.empty_class,
                **how,
            )
    manifest_files.write_manifest(built, paths.manifest(name), private=name in data.private)
    return summary(built.report)


def summary(report: dict[str, Any]) -> str:
    """Return what was found, and what was left out and why, in one line."""
    left_out = {
        "copies of other images": sum(len(group["paths"]) - 1 for group in report["duplicates"]),
        "unreadable": len(report["unreadable"]),
        f"no images ({listed(report['ignored_files'])})": sum(report["ignored_files"].values()),
    }
    notes = [f"{count} {what}" for what, count in left_out.items() if count]
    labelled = "" if report.get("labels") != "none" else ", no labels"
    return f"{report['images']} images, {len(report['classes'])} classes{labelled}" + "".join(
        f"; {note}" for note in notes
    )
