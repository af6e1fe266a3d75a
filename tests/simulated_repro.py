"""Simulate `dvc repro` in this process, to find the stages that a change runs in a second instead of a minute.

`Graph` reads the stages of a project from DVC, with their dependencies and parameters resolved, and follows the rule
of `dvc repro --allow-missing`: a stage runs if a dependency exists and has changed. Stages up to the features really
run, because their outputs may or may not change. Later stages are simulated: they write a digest of their inputs
except code, so that outputs change exactly when inputs do. Bases stay the same if only `method` changes, because
`source` would write the same bases again.
"""

import contextlib
import hashlib
import shlex
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dvc.dependency import ParamsDependency
from dvc.repo import Repo
from dvc.repo.reproduce import plan_repro

from pipeline import code_fingerprints
from pipeline.stage import main
from small_project import tree_digest

REAL = ("code", "generate", "manifest", "order", "tasks", "model", "embed", "prompts")

State = dict[str, dict[str, str | None]]  # stage -> dependency or parameters -> digest


class Graph:
    """The stages of a project as resolved by DVC."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with Repo(str(folder)) as repo:
            self.stages: list[Any] = plan_repro(repo.index.graph)

    def files(self) -> dict[str, tuple[list[str], list[str]]]:
        """Return the paths read and written by each stage, keyed by its arguments, such as ``"embed left vit"``."""
        return {
            " ".join(stage.cmd.split()[3:]): (self._paths(stage.deps), self._paths(stage.outs)) for stage in self.stages
        }

    def _paths(self, ends: list[Any]) -> list[str]:
        files = (Path(end.fs_path) for end in ends if not isinstance(end, ParamsDependency))
        return [str(file.relative_to(self.folder)) for file in files]

    def state(self) -> State:
        """Return the current digests of each stage's dependencies and parameters."""
        return {stage.name: self._read(stage) for stage in self.stages}

    def _read(self, stage: Any) -> dict[str, str | None]:
        params = [dep for dep in stage.deps if isinstance(dep, ParamsDependency)]
        values = {f"{Path(d.fs_path).name}: {key}": repr(v) for d in params for key, v in d.read_params().items()}
        return values | {path: tree_digest(self.folder / path) for path in self._paths(stage.deps)}

    def repro(self, before: State) -> set[str]:
        """Run the stages that differ from ``before``; return those that ran, up to the first "STAGE failed"."""
        ran: set[str] = set()
        # fingerprint the code of the project, not the running package
        with contextlib.chdir(self.folder), patch.object(code_fingerprints, "SOURCE", self.folder):
            for stage in self.stages:
                read, known = self._read(stage), before.get(stage.name)
                if known is not None and all(value in (None, known.get(name)) for name, value in read.items()):
                    continue
                if stage.name.split("@")[0] not in REAL:
                    self._simulate(stage, read, read.items() - (known or {}).items())
                else:
                    code_fingerprints._files_used.cache_clear()
                    if main(shlex.split(stage.cmd)[3:]):
                        return ran | {f"{stage.name} failed"}
                ran.add(stage.name)
        return ran

    def _simulate(self, stage: Any, read: dict[str, str | None], changed: set[tuple[str, str | None]]) -> None:
        """Write a digest of a stage's inputs as each of its outputs."""
        only_method = {name for name, _ in changed} == {"params.yaml: method"}
        inputs = {name: text for name, text in read.items() if not name.startswith("cache/code")}
        for path in map(Path, self._paths(stage.outs)):
            if only_method and path.parent.name == "bases":
                continue
            file = path / "simulated" if path.suffix in ("", ".zarr") else path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)  # may be a link into DVC's cache
            file.write_text(hashlib.md5(repr(inputs).encode()).hexdigest())
