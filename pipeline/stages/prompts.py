"""Stage `prompts@DOMAIN`: text embeddings of the domain's classes, averaged over its templates.

Writes cache/prompts/DOMAIN.zarr: one unit vector per class, and the model's learned logit scale. With an imported
language model the vectors are read from its file instead (arrays `text`, `class_names`, `logit_scale`).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.array_files import read_array
from pipeline.datasets.class_names import spoken
from pipeline.datasets.manifest_files import read_classes
from pipeline.datasets.prompts import prompts as prompts_of
from pipeline.errors import InputError, exits_cleanly
from pipeline.method.zero_shot import unit_rows
from pipeline.params import Model, Params, load_params, named
from pipeline.stages import places
from pipeline.stages.imported_files import texts_file
from pipeline.store.prompt_store import Prompts, write_prompts


def embed_prompts(params: Params, domain: str, classes: Sequence[str]) -> Prompts:
    """Embed every class in every template; average the unit vectors and normalise again."""
    from pipeline.encoders.device import choose_device
    from pipeline.stages.backbones import build_clip

    names = params.datasets[params.domains[domain].dataset].class_names
    templates = params.domains[domain].templates
    encoder = build_clip(params.models[params.language], choose_device(params.runtime.device))
    texts = [
        text for name in classes for text in prompts_of(names.get(name) or spoken(name), templates)
    ]
    vectors = encoder.embed_texts(texts).cpu().numpy()
    text = unit_rows(vectors.reshape(len(classes), len(templates), -1).mean(axis=1)).astype(
        np.float32
    )
    provenance = {
        "classes": list(classes),
        "prompts": texts,
        "model": encoder.description,
        "weights": encoder.fingerprint,
    }
    return Prompts(text, encoder.logit_scale, provenance)


def import_prompts(spec: Model, classes: Sequence[str]) -> Prompts:
    """Read text embeddings computed elsewhere, in the order of ``classes``."""
    file = texts_file(spec)

    def array(name: str) -> npt.NDArray[Any]:
        return read_array(file, spec.arrays.get(name, name))

    text, scale = array("text"), array("logit_scale")
    known = array("class_names")
    if known.ndim != 1 or known.dtype.kind != "U":
        raise InputError(
            f"{file}: class_names must be a list of strings, not {known.dtype} {known.shape}"
        )
    names = [str(name) for name in known]
    order = []
    for name in classes:
        matches = [
            i for i, known in enumerate(names) if spoken(known).lower() == spoken(name).lower()
        ]
        if len(matches) != 1:
            raise InputError(
                f"{file}: {len(matches)} text embeddings for class {name!r}; one is wanted"
            )
        order.append(matches[0])
    if text.ndim != 2 or len(text) != len(names) or text.dtype.kind != "f":
        raise InputError(
            f"{file}: text {text.dtype} {text.shape} does not fit {len(names)} class names"
        )
    if not np.isfinite(text).all():
        raise InputError(f"{file}: a text embedding is not finite (NaN or infinity)")
    is_number = scale.size == 1 and scale.dtype.kind in "fiu"
    if not is_number or not 0 < float(scale.reshape(-1)[0]) < math.inf:
        raise InputError(f"{file}: logit_scale must be one positive number")
    provenance = {"classes": list(classes), "model": {"library": "imported", "file": file.name}}
    return Prompts(
        unit_rows(text[order]).astype(np.float32), float(scale.reshape(-1)[0]), provenance
    )


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.prompts", description=__doc__)
    parser.add_argument("domain")
    domain = parser.parse_args(argv).domain
    params = load_params()
    named("domains", params.domains, domain)
    classes = [
        row.class_name for row in read_classes(places.manifest_folder(domain) / "classes.csv")
    ]
    spec = params.models[params.language]
    made = (
        import_prompts(spec, classes)
        if spec.library == "imported"
        else embed_prompts(params, domain, classes)
    )
    write_prompts(places.prompts(domain), made)
    sys.stdout.write(
        f"prompts {domain}: {len(classes)} classes, logit scale {made.logit_scale:.1f}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
