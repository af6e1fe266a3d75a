"""Declare the stages of dvc.yaml and run them.

A stage is a function with a declaration, which says for which keys of suite.yaml the stage runs and which sections of
params.yaml and suite.yaml it reads. ``python -m pipeline.stages NAME KEY…`` runs a stage. This module parses the
arguments, loads the parameters, prints the final message and reports errors in one line, alike for all stages.

Examples
--------
>>> @stage(per=("domains",), reads=("data", "domains"))
... def count(context, domain):
...     "Count the images of a domain."
...     return f"{domain}: {len(context.params.data.seeds)} seeds"
>>> count.name, count.reads
('count', ('data', 'domains'))
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

from pipeline import paths
from pipeline.config.params import Params, get_entry, load_params
from pipeline.errors import RefereeError, did_you_mean, exits_cleanly
from pipeline.extraction.executor import Executor, executor
from pipeline.problem.problem import Project
from pipeline.report.made_with import made_with

if TYPE_CHECKING:
    from pipeline.datasets.sources.source import FoundImages
    from pipeline.extraction.embedding_settings import EmbeddingSettings

STAGES = "pipeline.stages"
ALWAYS_READ = ("runtime", "suite")  # how the work is done, and the folder of the results
TRACKED_SECTIONS = ("method", "rff")  # changed most often, so dvc.yaml lists them as `params` of every stage using them

SettingsOf = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Stage:
    """The declaration of a stage."""

    name: str  # as in dvc.yaml
    per: tuple[str, ...]  # sections whose keys are the stage's arguments, e.g. ``("domains", "models")``
    # Sections whose values the function reads; `Context.params` has no others. `Context.project` uses ``vision``,
    # ``language`` and ``problems``: declare them too. The stage also runs again if a default in a section changes.
    reads: tuple[str, ...]
    # For stages whose outputs take hours: they run again when this number is raised, not when code changes.
    # tests/stages/test_golden_outputs.py fails if outputs change but the number does not.
    version: int | None
    # ``settings(params, *keys)`` returns the other values that decide the outputs, as plain JSON. `code` writes them to
    # a file on which the stage depends. In this way a stage can read part of a section, or optional keys, which DVC
    # cannot track by name. It also keeps dvc.lock short, which is read and written once per stage.
    settings: SettingsOf | None
    function: Callable[..., str]  # takes a `Context` and an argument per entry of ``per``; returns the message to print


def stage(
    *,
    per: Sequence[str] = (),
    reads: Sequence[str] = (),
    version: int | None = None,
    settings: SettingsOf | None = None,
) -> Callable[[Callable[..., str]], Stage]:
    """Decorate a function to declare a stage of the same name."""
    return lambda function: Stage(function.__name__, tuple(per), tuple(reads), version, settings, function)


class DeclaredParams:
    """The parameter sections that a stage declares; any other section raises AttributeError."""

    def __init__(self, params: Params, sections: Sequence[str]) -> None:
        self._params = params
        self._sections = frozenset(sections)

    def __getattr__(self, section: str) -> Any:
        if section not in self._sections:
            raise AttributeError(f"section {section!r} is not among the stage's declared reads")
        return getattr(self._params, section)

    def selected(self) -> dict[str, Any]:
        """Return the declared sections as plain JSON values, in the order of the files, without `runtime`."""
        return self._params.model_dump(mode="json", include=set(self._sections) - {"runtime"})


@dataclass(frozen=True)
class Context:
    """The first argument of every stage: parameters, caches and settings."""

    params: Any  # `DeclaredParams`: the sections that the stage declares
    project: Project  # the caches of the project, opened and checked on first use
    settings: dict[str, Any]  # the result of the declaration's ``settings`` for the stage's keys

    def executor(self, domain: str) -> AbstractContextManager[Executor]:
        """Open an executor that runs a function for each seed on the rows of ``domain``."""
        runtime = self.params.runtime
        needed = [paths.embeddings(domain, self.project.vision)]
        return executor(paths.SCRATCH, workers=runtime.workers, statistics=runtime.statistics, paths=needed)

    @property
    def suite(self) -> str:
        """The name of the suite and of its results folder."""
        return str(self.params.suite)


def embedding_settings(params: Any, model: str) -> EmbeddingSettings:
    """Return the settings for embedding images by a model of suite.yaml."""
    from pipeline.extraction.embedding_settings import EmbeddingSettings
    from pipeline.method.frequency_views import ViewSettings  # imports torch

    runtime = params.runtime.model_dump(exclude={"statistics"})
    return EmbeddingSettings(params.models[model], ViewSettings(**params.views.model_dump()), **runtime)


def domain_images(params: Any, domain: str) -> FoundImages:
    """Find the images of a domain as described in suite.yaml, without decoding them."""
    from pipeline.datasets.sources.choose import find_in
    from pipeline.datasets.sources.source import DomainSettings

    entry = params.domains[domain]
    dataset, labelled = params.datasets[entry.dataset], entry.labels != "none"
    settings = DomainSettings(
        domain=domain,
        dataset=entry.dataset,
        class_names=tuple(dataset.class_names) if labelled else (),
        labelled=labelled,
        columns=dataset.columns or {},
    )
    return find_in(Path(entry.images), settings)


def figure_settings(params: Params, problem: str, *further_sections: str) -> dict[str, Any]:
    """Return the settings that decide a problem's figures besides `rff` and `method`, as part of a stage's settings."""
    sections = {"data", "language", "views", "vision", *further_sections}
    return {
        "made_with": made_with(params.model_dump(mode="json", include=sections)),
        "problem": params.problems[problem].model_dump(exclude_none=True),
    }


def open_project(params: Params, root: Path = Path()) -> Project:
    """Return the caches of the project in a folder, by default the current folder."""
    return Project(params.vision, params.language, params.problems, root)


def entries_of(params: Params, section: str) -> dict[str, Any]:
    """Return the entries of a section by key, or by name if the section is a list."""
    entries = getattr(params, section)
    return {entry.name: entry for entry in entries} if isinstance(entries, list) else dict(entries)


def stage_names() -> list[str]:
    """Return the names of all stages: the modules of `pipeline.stages`."""
    package = importlib.import_module(STAGES)
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.name != "__main__")


def find_stage(name: str) -> Stage:
    """Return the stage called ``name``."""
    if name not in stage_names():
        raise RefereeError(f"stage: there is no {name!r}{did_you_mean(name, stage_names())}")
    declaration: Stage = getattr(importlib.import_module(f"{STAGES}.{name}"), name)
    return declaration


@exits_cleanly
def main(argv: Sequence[str] | None = None) -> int:
    """Run one stage: ``python -m pipeline.stages NAME KEY…``."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0].startswith("-"):
        sys.stdout.write(f"usage: python -m pipeline.stages STAGE KEY...\nstages: {', '.join(stage_names())}\n")
        return 0 if arguments else 2
    declaration = find_stage(arguments[0])
    parser = argparse.ArgumentParser(
        prog=f"python -m pipeline.stages {declaration.name}", description=declaration.function.__doc__
    )
    for section in declaration.per:
        parser.add_argument(section, metavar="KEY", help=f"a key of `{section}`")
    parsed = parser.parse_args(arguments[1:])
    params = load_params()
    keys = [getattr(parsed, section) for section in declaration.per]
    for section, key in zip(declaration.per, keys, strict=True):
        get_entry(section, entries_of(params, section), key)
    sections = DeclaredParams(params, (*declaration.reads, *ALWAYS_READ))
    settings = declaration.settings(params, *keys) if declaration.settings else {}
    context = Context(sections, open_project(params), settings)
    with threadpool_limits(limits=1, user_api="blas"):  # the last bits depend on the number of threads
        message = declaration.function(context, *keys)
    sys.stdout.write(f"{' '.join((declaration.name, *keys))}: {message}\n")
    return 0
