"""Stage `embed@DOMAIN-MODEL`: embed a domain's images by a model, in every view that the domain lists.

Reads images.csv and the images; writes cache/embeddings/DOMAIN/MODEL.zarr. The stage can be killed at any moment: the
next run continues where it stopped and produces the same bytes. Embeddings computed elsewhere (``library: imported``)
are copied instead.
"""

from pathlib import Path
from typing import Any

from pipeline import paths
from pipeline.config.params import Params
from pipeline.datasets.manifest_files import ImageRow, read_images, rows_digest
from pipeline.errors import counted
from pipeline.extraction.embedding_settings import ROWS_VERSION, settings_of_view, views_in_both
from pipeline.extraction.images import images_of
from pipeline.extraction.imported import STORE, embeddings_file, import_store, import_views
from pipeline.image_files.read import file_of
from pipeline.stage import Context, embedding_settings, stage
from pipeline.store.embedding_store import write_embeddings


def settings(params: Params, domain: str, model: str) -> dict[str, Any]:
    """Return the settings that decide the rows: the model, and the extracted views, each with its own settings.

    Views and settings that only other domains use, or that a later version adds, do not cause another extraction.
    """
    spec = params.models[model]
    views = views_in_both(domain, params.domains[domain].views, model, spec.views)
    return {
        "views": {view: settings_of_view(view, params.views) for view in views},
        "model": spec.model_dump(mode="json", exclude={"views"}, exclude_none=True),
    }


@stage(per=("domains", "models"), reads=("domains", "models", "views"), version=ROWS_VERSION, settings=settings)
def embed(context: Context, domain: str, model: str) -> str:
    """Write cache/embeddings/DOMAIN/MODEL.zarr."""
    params = context.params
    spec = params.models[model]
    images = read_images(paths.manifest(domain))
    views = tuple(context.settings["views"])
    if spec.library != "imported":
        return embed_with_model(context, domain, model, images, views)
    file = embeddings_file(Path(spec.origin), domain)
    if file.suffix == STORE:  # a store of another project, with its provenance
        write_embeddings(paths.embeddings(domain, model), *import_store(file, digest(images), views))
        return f"{counted(len(images), 'row')} of {', '.join(views)} taken over from {file}"
    shared_by = list(params.domains) if file == Path(spec.origin) else ()
    names, dtype = [image.path for image in images], spec.stored_as
    rows = import_views(file, domain, names, views, arrays=spec.arrays, dtype=dtype, shared_by=shared_by)
    made_by = {"library": "imported", "name": spec.name, "file": file.name}
    provenance = {"domain": domain, "model": made_by, "rows_digest": digest(images)}
    write_embeddings(paths.embeddings(domain, model), rows, provenance)
    return f"{counted(len(images), 'row')} of {', '.join(views)} imported from {file}"


def embed_with_model(context: Context, domain: str, model: str, images: list[ImageRow], views: tuple[str, ...]) -> str:
    """Embed the images that earlier runs have not embedded, on this machine or a cluster, and write the store."""
    from pipeline.extraction.cluster import cluster_from_environment
    from pipeline.extraction.embed import embed_images  # imports torch

    embedding = embedding_settings(context.params, model)
    needed = [Path(embedding.backbone.origin), *(file_of(Path(image.path)) for image in images[:1])]
    with (
        cluster_from_environment(paths.SCRATCH, needed) as cluster,
        embed_images(
            images_of(images), views, embedding, progress=paths.PROGRESS, writer=f"{domain}-{model}", cluster=cluster
        ) as embedded,
    ):
        provenance = {"domain": domain, **embedded.backbone, "rows_digest": digest(images)}
        write_embeddings(paths.embeddings(domain, model), embedded.views, provenance)
    return embedded.summary


def digest(images: list[ImageRow]) -> str:
    """Return the digest that ties the rows of a store to a manifest."""
    return rows_digest(image.sha256 for image in images)
