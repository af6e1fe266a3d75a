"""The array ``paths`` of an .npz of imported embeddings: DOMAIN/CLASS/FILE. No image is opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar

from pipeline.array_files import is_domain, read_paths
from pipeline.datasets.sources.source import ANY_DOMAIN, Collected, DomainSettings, FoundImages
from pipeline.errors import InputError, listed


@dataclass(frozen=True)
class NpzPaths:
    """A file whose paths stand in for absent images; those of other domains are left out."""

    file: Path
    settings: DomainSettings = ANY_DOMAIN
    has_bytes: ClassVar[bool] = False

    def find(self) -> FoundImages:
        """Return the images; see `ImageSource`."""
        paths = read_paths(self.file)
        if paths is None:
            raise InputError(f"{self.file}: has no array 'paths'; add one of DOMAIN/CLASS/FILE strings")
        collected = Collected(self.settings)
        ours = [text for text in paths if is_domain(text.partition("/")[0], self.settings.domain)]
        if not ours:
            domains = sorted({text.partition("/")[0] for text in paths})
            raise InputError(
                f"{self.file}: paths: none begins with {self.settings.domain}/ (there are: {listed(domains)}); "
                "the domain's key in suite.yaml must be the DOMAIN of its paths"
            )
        if len(set(ours)) < len(ours):
            twice = next(text for text in ours if ours.count(text) > 1)
            raise InputError(f"{self.file}: paths: {twice!r} is there twice")
        for text in ours:
            class_name = PurePosixPath(text).parts[1]
            self.settings.require_known(f"{self.file}: paths: {text!r}", class_name)
            collected.add(Path(text), class_name)
        return collected.found(self.file)
