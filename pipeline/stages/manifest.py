"""Stage `manifest@DOMAIN`: list a domain's images with their sizes and digests and, apart, their classes.

Writes images, labels, names and report.json of cache/manifests/DOMAIN. It opens every image; what seeds and the order
of classes decide is left to `tasks`, which opens none.
"""

from functools import partial
from typing import Any

from pipeline import paths
from pipeline.config.params import Params
from pipeline.datasets import manifest_files
from pipeline.datasets.manifest import build
from pipeline.datasets.sources.folder import require_same_classes
from pipeline.encoders.image_decoding import image_facts
from pipeline.errors import counted, listed
from pipeline.extraction.progress import Progress
from pipeline.stage import Context, domain_images, stage


def settings(params: Params, name: str) -> dict[str, Any]:
    """Return what decides the manifest of a domain: its images, and what is left out.

    Of the classes their names count, in order: sources may number them, a name may have no images, a folder no name.
    The words for prompts do not count.
    """
    domain, data = params.domains[name], params.data
    dataset = params.datasets[domain.dataset]
    return {
        "images": domain.images,
        "labels": domain.labels,
        "class_names": list(dataset.class_names),
        "columns": dataset.columns,
        "lists": {},  # a section of former versions: without the key, every team's manifests would be made again
        "unreadable": data.unreadable,
        "empty_class": data.empty_class,
        "max_pixels": data.max_pixels,
        "private": name in data.private,
    }


# Not raised since HEIC files in class folders are images: it would read every team's images again, and only folders
# that hold such files have other rows.
@stage(per=("domains",), reads=("datasets", "domains"), version=3, settings=settings)
def manifest(context: Context, name: str) -> str:
    """Write cache/manifests/DOMAIN but for its tasks."""
    how, params = context.settings, context.params
    if not how["class_names"]:  # otherwise a class without images is `data.empty_class`
        # changes no output and is no setting, so that a new domain makes no other manifest again
        dataset = params.domains[name].dataset
        folders = [domain.images for domain in params.domains.values() if domain.dataset == dataset]
        require_same_classes(how["images"], folders, dataset)
    read = partial(image_facts, max_pixels=how["max_pixels"])
    found = domain_images(params, name)
    with Progress(f"manifest {name}", len(found.images)) as progress:
        built = build(
            found,
            domain=name,
            folder=how["images"],
            class_names=how["class_names"],
            labelled=how["labels"] != "none",
            read_facts=read if found.has_bytes else None,
            unreadable=how["unreadable"],
            empty_class=how["empty_class"],
            workers=params.runtime.workers,
            by_content=how["private"],
            on_read=partial(progress.update, 1),
        )
    manifest_files.write_manifest(built, paths.manifest(name), private=how["private"])
    private = "; private: run all of `dvc repro` before you push, teammates cannot run what reads labels"
    return summary(built.report) + (private if how["private"] else "")


def summary(report: dict[str, Any]) -> str:
    """Return what was found, and what was left out and why, in one line."""
    line = f"{counted(report['images'], 'image')}, {counted(len(report['classes']), 'class')}"
    if report.get("labels") == "none":
        line += ", no labels"
    if copies := sum(len(group["paths"]) - 1 for group in report["duplicates"]):
        line += f"; {counted(copies, 'copy')} of other images"
    if unreadable := report["unreadable"]:
        line += f"; {len(unreadable)} unreadable"
    if ignored := report["ignored_files"]:
        line += f"; {counted(sum(ignored.values()), 'file')} of other kinds ({listed(ignored)})"
    return line
