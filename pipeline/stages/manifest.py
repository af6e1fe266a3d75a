"""Stage `manifest@DOMAIN`: list a domain's images with their sizes and digests and, apart, their classes.

Writes images, labels, names and report.json of cache/manifests/DOMAIN. It opens every image; what seeds and the order
of classes decide is left to `tasks`, which opens none.
"""

import unicodedata
from functools import partial
from pathlib import Path
from typing import Any

from pipeline import paths
from pipeline.config.params import Params
from pipeline.datasets import manifest_files
from pipeline.datasets.manifest import build
from pipeline.datasets.sources.folder import class_folders
from pipeline.encoders.image_decoding import read_image
from pipeline.errors import InputError, counted, listed
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
    require_same_classes(params, name)
    read = partial(read_image, max_pixels=how["max_pixels"])
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


def require_same_classes(params: Any, name: str) -> None:
    """Refuse a class that only some domains of a dataset have, where folders name them: before hours of extraction.

    It changes no output and is no setting, so that a new domain does not make the manifests of the others again.
    """
    dataset = params.domains[name].dataset
    if params.datasets[dataset].class_names:
        return  # a class without images is then `data.empty_class`
    folders = [domain.images for domain in params.domains.values() if domain.dataset == dataset]
    classes = {folder: {child.name for child in class_folders(Path(folder), ())} for folder in folders}
    own = params.domains[name].images
    for folder, names in classes.items():
        only_one = sorted(names ^ classes[own]) if names and classes[own] else []
        if only_one:
            lacks, has = (own, folder) if only_one[0] in names else (folder, own)
            twin = next((name for name in classes[lacks] if _letters(name) == _letters(only_one[0])), None)
            if twin:
                raise InputError(
                    f"{lacks}/{twin}: is called {only_one[0]!r} in {has}, in other capitals or other characters for "
                    "the same letters (ä as one or as two); give both folders one name"
                )
            raise InputError(
                f"{lacks}: has no class folder {only_one[0]!r}, but {has} has; add it here, take it away there, or "
                f"name all classes in datasets.{dataset}.class_names and set data.empty_class: report"
            )


def _letters(name: str) -> str:
    """Return a name as people read it: macOS writes ä as two characters, Linux as one."""
    return unicodedata.normalize("NFKC", name).casefold()
