"""Stage `manifest@DOMAIN`: list a domain's images, with tasks, splits and, apart, labels."""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

from pipeline.datasets import layouts, manifest_files
from pipeline.datasets.manifest import build
from pipeline.encoders.image_decoding import IMAGE_SUFFIXES, read_image
from pipeline.errors import exits_cleanly
from pipeline.params import Params, load_params, named
from pipeline.stages import places


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write {images,tasks,classes,labels}.csv and report.json into cache/manifests/DOMAIN."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.manifest", description=__doc__)
    parser.add_argument("domain", metavar="DOMAIN", help="a key of `domains` in params.yaml")
    key = parser.parse_args(argv).domain
    params = load_params()
    domain = named("domains", params.domains, key)
    dataset = params.datasets[domain.dataset]
    by_paths = domain.images.endswith(".npz")
    made = build(
        find(key, params),
        domain=key,
        place=domain.images,
        class_names=dataset.class_names or class_folders(key, params),
        classes_per_task=dataset.classes_per_task,
        seeds=params.data.seeds,
        test_fraction=params.data.test_fraction,
        read_facts=None
        if by_paths
        else functools.partial(read_image, max_pixels=params.data.max_pixels),
        unreadable=params.data.unreadable,
        empty_class=params.data.empty_class,
        workers=params.runtime.workers,
        by_content=key in params.data.private,
    )
    manifest_files.write(made, places.manifest_folder(key), private=key in params.data.private)
    return 0


def class_folders(key: str, params: Params) -> list[str]:
    """Return the classes that a domain's folders name, those without images too; none for lists."""
    listed = any(entry.domain == key for entry in params.lists.values())
    return [] if listed else layouts.class_folders(Path(params.domains[key].images))


def find(key: str, params: Params) -> list[layouts.LabelledImage]:
    """Return the labelled images of the domain ``key``."""
    domain = params.domains[key]
    class_names = tuple(params.datasets[domain.dataset].class_names)
    images = Path(domain.images)
    if images.suffix == ".npz":
        return layouts.npz_paths(images, key, class_names=class_names)
    return layouts.find_images(
        images,
        suffixes=IMAGE_SUFFIXES,
        lists=[
            (places.image_list(name), Path(entry.root))
            for name, entry in params.lists.items()
            if entry.domain == key
        ],
        class_names=class_names,
    )


if __name__ == "__main__":
    sys.exit(main())
