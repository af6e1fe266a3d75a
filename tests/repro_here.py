"""Which stages a change runs, in one process and a second instead of a minute: DVC's graph, played where it costs.

`Graph` asks DVC for the stages of a project, with their dependencies and parameters resolved, and follows the rule of
`dvc repro --allow-missing`: a stage runs if something that it depends on is there and differs from what it was. The
stages down to the features run for real, since whether their outputs change is the question. Those below are played:
they write a digest of what they read, code apart, so that their outputs change exactly when their inputs do; bases are
left as they are if only `method` changes, as `source` would write them again.
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
    """The stages of a project as DVC resolves them now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with Repo(str(folder)) as repo:
            self.stages: list[Any] = plan_repro(repo.index.graph)

    def files(self) -> dict[str, tuple[list[str], list[str]]]:
        """Return the paths that every stage reads and writes, by its arguments: ``"embed left vit"``."""
        return {
            " ".join(stage.cmd.split()[3:]): (self._paths(stage.deps), self._paths(stage.outs)) for stage in self.stages
        }

    def _paths(self, ends: list[Any]) -> list[str]:
        files = (Path(end.fs_path) for end in ends if not isinstance(end, ParamsDependency))
        return [str(file.relative_to(self.folder)) for file in files]

    def state(self) -> State:
        """Return what every stage depends on, now."""
        return {stage.name: self._read(stage) for stage in self.stages}

    def _read(self, stage: Any) -> dict[str, str | None]:
        params = [dep for dep in stage.deps if isinstance(dep, ParamsDependency)]
        values = {f"{Path(d.fs_path).name}: {key}": repr(v) for d in params for key, v in d.read_params().items()}
        return values | {path: tree_digest(self.folder / path) for path in self._paths(stage.deps)}

    def repro(self, before: State) -> set[str]:
        """Run what differs from ``before``; return the stages that ran. One that failed ends it: "STAGE failed"."""
        ran: set[str] = set()
        # the code that counts is the project's, not the one that runs
        with contextlib.chdir(self.folder), patch.object(code_fingerprints, "SOURCE", self.folder):
            for stage in self.stages:
                read, known = self._read(stage), before.get(stage.name)
                if known is not None and all(now is None or now == known.get(name) for name, now in read.items()):
                    continue
                if stage.name.split("@")[0] not in REAL:
                    self._play(stage, read, read.items() - (known or {}).items())
                else:
                    code_fingerprints._files_used.cache_clear()
                    if main(shlex.split(stage.cmd)[3:]):
                        return ran | {f"{stage.name} failed"}
                ran.add(stage.name)
        return ran

    def _play(self, stage: Any, read: dict[str, str | None], changed: set[tuple[str, str | None]]) -> None:
        """Write outputs that tell the inputs of a stage."""
        only_method = {name for name, _ in changed} == {"params.yaml: method"}
        kept = {name: text for name, text in read.items() if not name.startswith("cache/code")}
        for path in map(Path, self._paths(stage.outs)):
            if only_method and path.parent.name == "bases":
                continue
            file = path / "played" if path.suffix in ("", ".zarr") else path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)  # may be a link into DVC's cache
            file.write_text(hashlib.md5(repr(kept).encode()).hexdigest())
