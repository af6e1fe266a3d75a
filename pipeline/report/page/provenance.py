"""What was run: parameters, revision, hashes of the stores, and where each number is."""

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pipeline import paths

# which numbers are there, their file or folder, the stage that writes it
NUMBERS: tuple[tuple[str, Callable[..., Path], str], ...] = (
    ("final accuracy A_T, forgetting, calibration of a problem", paths.evaluation, "evaluate@PROBLEM"),
    ("per task, per class, confusion, weights, reliability, map", paths.problem_tables, "evaluate@PROBLEM"),
    ("every method on the same features", paths.comparison, "compare@PROBLEM"),
    ("accuracy over D", paths.sensitivity, "sensitivity_D@PROBLEM"),
    ("accuracy over sigma", paths.sensitivity, "sensitivity_sigma@PROBLEM"),
    ("values chosen without target labels", paths.selection, "select@PROBLEM"),
    ("labels and figures of a step of a stream", paths.step_images, "step@STEP"),
    ("tables of the whole suite", paths.suite_tables, "tables"),
    ("this page", paths.report, "report"),
)

StoreHash = tuple[str, str, str, object]  # path, stage, hash, bytes


@dataclass(frozen=True)
class Provenance:
    """What was run."""

    params: Mapping[str, Any]
    revision: str  # of git, or why it is not known
    hashes: Sequence[StoreHash]  # empty without dvc.lock
    figures: str = ""  # digest of the figures that the page shows

    def params_yaml(self) -> str:
        """Return the parameters as YAML."""
        buffer = io.StringIO()
        writer = YAML()
        writer.width = 100
        writer.dump(json.loads(json.dumps(self.params)), buffer)  # tuples become lists
        return buffer.getvalue()

    def number_rows(self, suite: str) -> list[tuple[str, str, str]]:
        """Return for each kind of number its file and the command that computes it."""
        return [
            (numbers, path(suite, *stage.split("@")[1:]).as_posix(), f"dvc repro {stage}")
            for numbers, path, stage in NUMBERS
        ]


def figures_digest(files: Iterable[Path]) -> str:
    """Return a digest of the files that hold the figures of a page; of those that are there."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes() if file.is_file() else b"absent")
    return digest.hexdigest()


def shows_figures(page: Path, digest: str) -> bool:
    """Tell whether a page was made from the figures of a digest: it names them in its head."""
    with page.open("rb") as file:
        return f'<meta name="figures" content="{digest}">'.encode() in file.read(4096)


def lock_hashes(lock: Mapping[str, Any]) -> list[StoreHash]:
    """Return the outputs that a dvc.lock names, by path, except code digests and the page itself."""
    return sorted(
        (out["path"], stage, out["md5"], out.get("size", ""))
        for stage, entry in lock.get("stages", {}).items()
        for out in entry.get("outs", [])
        if stage not in ("code", "report") and out.get("md5")
    )
