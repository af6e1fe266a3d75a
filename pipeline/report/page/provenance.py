"""What was run: parameters, revision, hashes of the stores; and how each number is made again."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML

from pipeline.report.page.markup import commands, plain_table, text

FILES = (  # number, file, stage that makes it
    (
        "final accuracy A_T, forgetting, calibration of a problem",
        "results/metrics/PROBLEM.json",
        "evaluate@PROBLEM",
    ),
    (
        "per task, per class, confusion, weights, reliability, map",
        "results/tables/PROBLEM/",
        "evaluate@PROBLEM",
    ),
    ("every method on the same features", "results/comparison/PROBLEM.json", "compare@PROBLEM"),
    ("accuracy over D and sigma", "results/sensitivity/PROBLEM/", "sensitivity@PROBLEM"),
    ("tables of the whole suite", "results/suite/", "tables"),
    ("this page", "results/report.html", "report"),
)

AGAIN = (
    "make repro                         # all of it, from images or cached features",
    "dvc repro evaluate@PROBLEM         # what one number needs, and nothing else",
    "dvc metrics show; dvc plots show   # the same numbers without this page",
    "dvc repro --force --single-item report   # this page again, with the images that are there now",
)


@dataclass(frozen=True)
class StoreHash:
    """An output as dvc.lock names it."""

    path: str
    stage: str
    digest: str
    size: int | None


@dataclass(frozen=True)
class Provenance:
    """What was run. revision: of git, or why it is not known. hashes: of the stores, or nothing without dvc.lock."""

    params: Mapping[str, Any]
    revision: str
    hashes: Sequence[StoreHash]


def lock_hashes(lock: Mapping[str, Any]) -> list[StoreHash]:
    """Return the outputs that a dvc.lock names, by path; code digests and this page are left out."""
    found = []
    for stage, entry in lock.get("stages", {}).items():
        for out in entry.get("outs", []):
            digest = out.get("md5") or out.get("etag") or ""
            if stage not in ("code", "report") and digest:
                found.append(StoreHash(str(out["path"]), str(stage), str(digest), out.get("size")))
    return sorted(found, key=lambda one: one.path)


def provenance_section(told: Provenance) -> str:
    """Return the last part of the page."""
    dumped = io.StringIO()
    writer = YAML()
    writer.width = 100
    writer.dump(_plain(told.params), dumped)
    return (
        '<section id="run" aria-labelledby="run-h"><h2 id="run-h">What was run</h2>'
        f"<p>Revision: <code>{text(told.revision)}</code></p>"
        "<details><summary>Parameters (params.yaml)</summary>"
        f'<pre tabindex="0"><code>{text(dumped.getvalue())}</code></pre></details>'
        f"<details><summary>Hashes of the stores (dvc.lock)</summary>{_hashes(told.hashes)}</details>"
        '<h3 id="again">Each number again</h3>'
        + commands(*AGAIN)
        + plain_table(
            "Where each number is and which stage makes it",
            ("number", "file", "command"),
            [(what, file, f"dvc repro {stage}") for what, file, stage in FILES],
        )
        + "</section>"
    )


def _hashes(hashes: Iterable[StoreHash]) -> str:
    rows = [
        (one.path, one.stage, one.digest, "" if one.size is None else one.size) for one in hashes
    ]
    if not rows:
        return "<p>There is no dvc.lock: the stages were not run by DVC, or not yet.</p>"
    return plain_table("Outputs as dvc.lock names them", ("output", "stage", "md5", "bytes"), rows)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value
