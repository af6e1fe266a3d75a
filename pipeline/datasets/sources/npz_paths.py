"""The array ``paths`` of an .npz of imported embeddings: DOMAIN/CLASS/FILE. No image is opened."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pipeline.array_files import is_domain, read_paths
from pipeline.datasets.sources.source import Collected, DomainSettings, FoundImages
from pipeline.errors import InputError, listed


def find_in_npz(file: Path, settings: DomainSettings) -> FoundImages:
    """Return the paths, which stand in for absent images; those of other domains are left out."""
    paths = read_paths(file)
    if paths is None:
        raise InputError(f"{file}: has no array 'paths'; add one of DOMAIN/CLASS/FILE strings")
    ours = Counter(text for text in paths if is_domain(text.partition("/")[0], settings.domain))
    if not ours:
        domains = sorted({text.partition("/")[0] for text in paths})
        raise InputError(
            f"{file}: paths: none begins with {settings.domain}/ (there are: {listed(domains)}); "
            "the domain's key in suite.yaml must be the DOMAIN of its paths"
        )
    collected = Collected(settings)
    for text, count in ours.items():
        where = f"{file}: paths: {text!r}"
        if count > 1:
            raise InputError(f"{where} is there twice")
        class_name = text.split("/")[1]
        settings.require_known(where, class_name)
        collected.add(Path(text), class_name)
    return collected.found(file, has_bytes=False)
