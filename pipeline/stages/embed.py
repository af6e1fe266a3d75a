"""Stage `embed@DOMAIN-MODEL`: the embeddings of a domain's images, in every view the domain asks for.

Reads images.csv and the images; writes cache/embeddings/DOMAIN/MODEL.zarr. Kill it at any moment and run it again: it
goes on where it stopped and ends with the same bytes. Embeddings computed elsewhere (library: imported) are
copied in instead.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from pipeline.array_files import read_paths
from pipeline.datasets.manifest_files import ImageRow, read_images
from pipeline.errors import InputError, exits_cleanly
from pipeline.execution.cluster import work_place
from pipeline.params import Params, load_params, named
from pipeline.stages import places
from pipeline.stages.imported_files import embeddings_file
from pipeline.stages.wanted_views import wanted_views
from pipeline.store.embedding_store import ViewRows, rows_digest, write_embeddings
from pipeline.store.imported_embeddings import import_rows, row_order


def import_embeddings(params: Params, domain: str, model: str, images: list[ImageRow]) -> str:
    """Copy embeddings computed elsewhere into a store; return what to tell."""
    spec = params.models[model]
    file = embeddings_file(spec, domain)
    paths = read_paths(file, spec.arrays.get("paths", "paths"))
    if paths is None and file == Path(spec.origin) and len(params.domains) > 1:
        # one matrix in manifest order cannot belong to several manifests
        raise InputError(
            f"{file}: has no paths, so it can stand for one domain only; let models.{model}.origin be a folder "
            f"with one file per domain ({', '.join(f'{key}.npy' for key in params.domains)})"
        )
    if paths is None:
        order, file_rows = np.arange(len(images)), len(images)
    else:
        order = row_order(file, paths, [image.path for image in images], domain)
        file_rows = len(paths)
    views = {}
    for view in wanted_views(params, domain, model):
        array = None if file.suffix == ".npy" else spec.arrays.get(view, view)
        rows = import_rows(file, array, order, file_rows=file_rows, dtype=spec.stored_as)
        # How an imported view was made is not ours to say: the `views` section did not make it.
        settings = {"imported_as": array}
        views[view] = ViewRows(len(rows), rows.shape[1], spec.stored_as, settings, [rows])
    provenance = {
        "domain": domain,
        "model": {"library": "imported", "name": spec.name, "file": file.name},
        "rows_digest": rows_digest(image.sha256 for image in images),
    }
    write_embeddings(places.embeddings(domain, model), views, provenance)
    return f"{len(images)} rows of {', '.join(views)} imported from {file}"


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write cache/embeddings/DOMAIN/MODEL.zarr."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.embed", description=__doc__)
    parser.add_argument("domain", metavar="DOMAIN", help="a key of `domains` in params.yaml")
    parser.add_argument("model", metavar="MODEL", help="a key of `models` in params.yaml")
    args = parser.parse_args(argv)
    params = load_params()
    named("domains", params.domains, args.domain)
    spec = named("models", params.models, args.model)
    images = read_images(places.manifest_folder(args.domain) / "images.csv")
    if spec.library == "imported":
        told = import_embeddings(params, args.domain, args.model, images)
    else:
        needed = [Path(spec.origin), *(Path(image.path) for image in images[:1])]
        with work_place(places.SCRATCH, needed) as cluster:
            # torch only where there is something to run
            from pipeline.stages.embed_images import embed_images

            told = embed_images(params, args.domain, args.model, images, cluster)
    sys.stdout.write(f"embed {args.domain} {args.model}: {told}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
