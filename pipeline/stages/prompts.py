"""Stage `prompts@DOMAIN`: embed the names of a domain's classes as text, averaged over the domain's templates.

Writes cache/prompts/DOMAIN.zarr: one unit vector per class and the model's learned logit scale. Classes are sorted by
name, so the order of arrival does not matter. For an imported language model the vectors are read from its file.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import paths
from pipeline.config.params import Params
from pipeline.datasets.manifest_files import read_class_names
from pipeline.datasets.prompts import fill_templates, spoken
from pipeline.errors import counted
from pipeline.extraction.imported import import_prompts
from pipeline.method.rows import unit_rows
from pipeline.stage import Context, stage
from pipeline.store.prompt_store import Prompts, write_prompts


def settings(params: Params, name: str) -> dict[str, Any]:
    """Return the settings that decide a domain's prompts: names, templates and model."""
    domain = params.domains[name]
    return {
        "class_names": params.datasets[domain.dataset].class_names,
        "templates": domain.templates,
        "model": params.models[params.language].model_dump(mode="json", exclude={"views"}, exclude_none=True),
    }


@stage(per=("domains",), reads=("datasets", "domains", "language", "models"), version=1, settings=settings)
def prompts(context: Context, name: str) -> str:
    """Write cache/prompts/DOMAIN.zarr."""
    params = context.params
    spec = params.models[params.language]
    classes = read_class_names(paths.manifest(name))
    if spec.library == "imported":
        embedded = import_prompts(Path(spec.origin), name, classes, spec.arrays)
    else:
        embedded = embed_prompts(context, name, classes)
    write_prompts(paths.prompts(name), embedded)
    return f"{counted(len(classes), 'class')}, logit scale {embedded.logit_scale:.1f}"


def embed_prompts(context: Context, domain: str, classes: Sequence[str]) -> Prompts:
    """Embed every class in every template, average the unit vectors and normalise the means."""
    from pipeline.encoders import clip_encoder  # imports torch

    params = context.params
    templates = params.domains[domain].templates
    names = params.datasets[params.domains[domain].dataset].class_names
    texts = [text for name in classes for text in fill_templates(names.get(name) or spoken(name), templates)]
    encoder = clip_encoder.build(params.models[params.language], params.runtime.device)
    vectors = encoder.embed_texts(texts).cpu().numpy()
    means = vectors.reshape(len(classes), len(templates), -1).mean(axis=1)
    provenance = {
        "classes": list(classes),
        "prompts": texts,
        "model": encoder.description,
        "weights": encoder.fingerprint,
    }
    return Prompts(unit_rows(means).astype(np.float32), encoder.logit_scale, provenance)
