"""What a stage is, and the one runner of all stages.

A stage of dvc.yaml is a function with a declaration: which keys of suite.yaml it runs for, and which sections of
params.yaml and suite.yaml it reads. ``python -m pipeline.stages NAME KEY…`` runs it: arguments, parameters, the message
at the end and errors in one line are the same for all and live here.

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
from pipeline.config.params import Params, load_params, named
from pipeline.errors import RefereeError, did_you_mean, exits_cleanly
from pipeline.extraction.executor import Executor, executor
from pipeline.problem.problem import Project
from pipeline.report.made_with import made_with

if TYPE_CHECKING:
    from pipeline.datasets.sources.source import FoundImages
    from pipeline.extraction.embedding_settings import EmbeddingSettings

STAGES = "pipeline.stages"
ALWAYS_READ = ("runtime", "suite")  # how the work is done, and the folder of the results
BY_NAME = ("method", "rff")  # changed most often: DVC tracks them by name in every stage that reads them

SettingsOf = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Stage:
    """A stage's declaration."""

    name: str  # as in dvc.yaml
    per: tuple[str, ...]  # sections whose keys are the stage's arguments, e.g. ``("domains", "models")``
    # Sections whose values the function reads; `Context.params` has no others. `Context.project` rests on ``vision``,
    # ``language`` and ``problems``: declare those that can change the outputs. Their defaults count as well.
    reads: tuple[str, ...]
    # For stages whose outputs cost hours: they run again when this number is raised and not when code changes.
    # tests/stages/test_golden_outputs.py fails where outputs change and the number does not.
    version: int | None
    # ``settings(params, *keys)`` returns what decides the outputs for the stage's keys besides `BY_NAME`, as plain JSON
    # values: `code` writes them into the file on which the stage depends. So a stage may read a part of a section, or
    # keys that may be absent, which DVC cannot track by name; and dvc.lock, read and written once per stage, is short.
    settings: SettingsOf | None
    function: Callable[..., str]  # takes a `Context` and an argument per entry of ``per``; returns the message to print


def stage(
    *,
    per: Sequence[str] = (),
    reads: Sequence[str] = (),
    version: int | None = None,
    settings: SettingsOf | None = None,
) -> Callable[[Callable[..., str]], Stage]:
    """Declare a stage: a decorator of the function that does its work. The stage has the function's name."""
    return lambda function: Stage(function.__name__, tuple(per), tuple(reads), version, settings, function)


class DeclaredParams:
    """The sections of the parameters that a stage declares; asking for another one is a mistake in the stage."""

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
    """What the runner gives to a stage."""

    params: Any  # `DeclaredParams`: the sections that the stage declares
    project: Project  # the caches of the project, opened and checked on request
    settings: dict[str, Any]  # what the declaration's ``settings`` returns for the stage's keys

    def executor(self, domain: str) -> AbstractContextManager[Executor]:
        """Open the executor of a stage's seeds, whose rows are those of ``domain``."""
        runtime = self.params.runtime
        needed = [paths.embeddings(domain, self.project.vision)]
        return executor(paths.SCRATCH, workers=runtime.workers, statistics=runtime.statistics, paths=needed)

    @property
    def suite(self) -> str:
        """The name of the suite, and of the folder of its results."""
        return str(self.params.suite)


def embedding_settings(params: Any, model: str) -> EmbeddingSettings:
    """Return how images become rows of a model of suite.yaml: the backbone, the views and how the work is done."""
    from pipeline.extraction.embedding_settings import EmbeddingSettings
    from pipeline.method.frequency_views import ViewSettings  # imports torch

    how = params.runtime.model_dump(exclude={"statistics"})
    return EmbeddingSettings(params.models[model], ViewSettings(**params.views.model_dump()), **how)


def domain_images(params: Any, domain: str) -> FoundImages:
    """Find the images of a domain where suite.yaml says that they are; nothing is decoded."""
    from pipeline.datasets.sources.choose import find_in
    from pipeline.datasets.sources.source import DomainSettings

    described = params.domains[domain]
    dataset, labelled = params.datasets[described.dataset], described.labels != "none"
    settings = DomainSettings(
        domain=domain,
        dataset=described.dataset,
        class_names=tuple(dataset.class_names) if labelled else (),
        labelled=labelled,
        columns=dataset.columns or {},
    )
    return find_in(Path(described.images), settings)


def figure_settings(params: Params, problem: str, *more: str) -> dict[str, Any]:
    """Return what decides a problem's figures besides `rff` and `method`: part of the settings of a stage.

    ``more`` are further sections that count.
    """
    sections = {"data", "language", "views", "vision", *more}
    return {
        "made_with": made_with(params.model_dump(mode="json", include=sections)),
        "problem": params.problems[problem].model_dump(exclude_none=True),
    }


def open_project(params: Params, root: Path = Path()) -> Project:
    """Return the caches of the project in a folder, by default the current one."""
    return Project(params.vision, params.language, params.problems, root)


def entries_of(params: Params, section: str) -> dict[str, Any]:
    """Return the entries of a section by their keys; those of a list by their names."""
    entries = getattr(params, section)
    return {entry.name: entry for entry in entries} if isinstance(entries, list) else dict(entries)


def stage_names() -> list[str]:
    """Return the names of all stages, which are the modules of `pipeline.stages`."""
    package = importlib.import_module(STAGES)
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.name != "__main__")


def find_stage(name: str) -> Stage:
    """Return a stage by its name."""
    if name not in stage_names():
        raise RefereeError(f"stage: there is no {name!r}{did_you_mean(name, stage_names())}")
    found: Stage = getattr(importlib.import_module(f"{STAGES}.{name}"), name)
    return found


@exits_cleanly
def main(argv: Sequence[str] | None = None) -> int:
    """Run one stage: ``python -m pipeline.stages NAME KEY…``."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0].startswith("-"):
        sys.stdout.write(f"usage: python -m pipeline.stages STAGE KEY...\nstages: {', '.join(stage_names())}\n")
        return 0 if arguments else 2
    declared = find_stage(arguments[0])
    parser = argparse.ArgumentParser(
        prog=f"python -m pipeline.stages {declared.name}", description=declared.function.__doc__
    )
    for section in declared.per:
        parser.add_argument(section, metavar="KEY", help=f"a key of `{section}`")
    parsed = parser.parse_args(arguments[1:])
    params = load_params()
    keys = [getattr(parsed, section) for section in declared.per]
    for section, key in zip(declared.per, keys, strict=True):
        named(section, entries_of(params, section), key)
    sections = DeclaredParams(params, (*declared.reads, *ALWAYS_READ))
    settings = declared.settings(params, *keys) if declared.settings else {}
    context = Context(sections, open_project(params), settings)
    with threadpool_limits(limits=1, user_api="blas"):  # its last bits depend on the number of threads
        message = declared.function(context, *keys)
    sys.stdout.write(f"{' '.join((declared.name, *keys))}: {message}\n")
    return 0
