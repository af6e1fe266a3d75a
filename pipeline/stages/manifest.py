"""Stage `manifest@DOMAIN`: list a domain's images with their sizes and digests and, in another file, their classes.

Opens every image. Writes images, labels, names and report.json of cache/manifests/DOMAIN. Whatever depends on the seeds
or the order of the classes is left to `tasks`, which opens no image.
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
    """Return the settings that decide a domain's manifest: where its images are, and which of them are left out.

    Class names count, in order, because a source may number its classes, a class may have no images, and a folder may
    belong to no class. The words for prompts do not count.
    """
    domain, data = params.domains[name], params.data
    dataset = params.datasets[domain.dataset]
    return {
        "images": domain.images,
        "labels": domain.labels,
        "class_names": list(dataset.class_names),
        "columns": dataset.columns,
        "lists": {},  # a section of former versions; without this key every team's manifests would be made again
        "unreadable": data.unreadable,
        "empty_class": data.empty_class,
        "max_pixels": data.max_pixels,
        "private": name in data.private,
    }


# The version was not raised when HEIC files in class folders became images: that would read every team's images again,
# although only folders with HEIC files have other rows.
@stage(per=("domains",), reads=("datasets", "domains"), version=3, settings=settings)
def manifest(context: Context, name: str) -> str:
    """Write cache/manifests/DOMAIN except its tasks."""
    domain_settings, params = context.settings, context.params
    if not domain_settings["class_names"]:  # otherwise `data.empty_class` says what to do about a class without images
        # only a check: the other domains are not in the settings, so a new domain makes no other manifest run again
        dataset = params.domains[name].dataset
        folders = [domain.images for domain in params.domains.values() if domain.dataset == dataset]
        require_same_classes(domain_settings["images"], folders, dataset)
    read = partial(image_facts, max_pixels=domain_settings["max_pixels"])
    found = domain_images(params, name)
    with Progress(f"manifest {name}", len(found.images)) as progress:
        listing = build(
            found,
            domain=name,
            folder=domain_settings["images"],
            class_names=domain_settings["class_names"],
            labelled=domain_settings["labels"] != "none",
            read_facts=read if found.has_bytes else None,
            unreadable=domain_settings["unreadable"],
            empty_class=domain_settings["empty_class"],
            workers=params.runtime.workers,
            by_content=domain_settings["private"],
            on_read=partial(progress.update, 1),
        )
    manifest_files.write_manifest(listing, paths.manifest(name), private=domain_settings["private"])
    private = "; private: run all of `dvc repro` before you push, teammates cannot run stages that read labels"
    return summary(listing.report) + (private if domain_settings["private"] else "")


def summary(report: dict[str, Any]) -> str:
    """Return one line that counts the images found and those left out, by reason."""
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
