"""Take over the features of an older version of this package.

Run it once after an upgrade, with the caches on disk (`dvc pull` before the
upgrade, or `dvc repro` of the older version). Images and weights are not
needed. It brings your params.yaml and the manifests to today's form and
records manifests, models, embeddings and prompts in dvc.lock as outputs of
today's stages, so that nothing is extracted again. What it cannot take over
is said, and the next `dvc repro` makes it. Change no setting in the same step.

reads:  dvc.lock, params.yaml, suite.yaml, cache/
writes: params.yaml, suite.yaml, cache/manifests, cache/code, dvc.lock; in a
        project of `referee init` also dvc.yaml (stages of your own are kept),
        docs/ and .dvc/plots
examples:
  referee upgrade && dvc repro --allow-missing
"""

import argparse
import csv
import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pipeline import paths
from pipeline.cli.former_params import renew_params
from pipeline.datasets.checked_csv import digest_file, is_pointer
from pipeline.datasets.manifest_files import (
    IMAGES,
    LABELS,
    NAMES,
    ImageRow,
    Manifest,
    iterate_images,
    rows_digest,
    write_manifest,
)
from pipeline.errors import InputError, RefereeError
from pipeline.installed_project import GRAPH, bring_up_to_date
from pipeline.params import load_params
from pipeline.stage import find_stage
from pipeline.stage import main as run_stage
from pipeline.store.embedding_store import open_embeddings
from pipeline.write_aside import write_aside

TAKEN_OVER = ("manifest", "model", "embed", "prompts")


def convert_manifest(folder: Path) -> None:
    """Write the folders of today's `manifest` from the files of an older version, if there are such."""
    former = folder / IMAGES.name
    if not former.is_file():
        return
    if (folder / NAMES.name).is_file() or (folder / NAMES).is_file():  # the same tables, all in one folder
        for path in (LABELS, NAMES, IMAGES):
            (folder / path).parent.mkdir(exist_ok=True)
            for file in (digest_file(path), path):  # the file that is looked for above comes last
                if (folder / file.name).is_file():  # or an earlier run, which was killed, has moved it
                    (folder / file.name).replace(folder / file)
        return
    if is_pointer(former):
        raise InputError(
            f"{folder}: private; its owner runs `dvc repro manifest@{folder.name}`, which extracts nothing again"
        )
    images = [ImageRow(row["path"], row["sha256"], int(row["width"]), int(row["height"])) for row in _rows(former)]
    labels = [row["class"] for row in _rows(folder / "labels.csv")]
    names = sorted(row["class"] for row in _rows(folder / "classes.csv"))
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    write_manifest(Manifest(images, labels, names, report), folder)
    for file in folder.glob("*.csv"):
        file.unlink()


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file of any version: DVC's hash has vouched for it."""
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def forget_former_stages(lock: Path) -> None:
    """Take entries of stages that dvc.yaml no longer has out of dvc.lock, which DVC reads and writes once per stage."""
    stages = YAML(typ="safe").load(GRAPH)["stages"]
    entries = re.split(r"^(?=  \S)", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    kept = [text for text in entries if text[:2] != "  " or re.split("[@:]", text)[0].strip() in stages]
    with write_aside(lock) as aside:
        aside.write_text("".join(kept), encoding="utf-8")


def former_version(stage: str) -> int | None:
    """Return the version under which a stage's outputs were made; None before stages had versions."""
    try:
        file = next(file for name in (stage, f"{stage}-*") for file in paths.CODE.glob(f"{name}.json"))
        version = json.loads(file.read_text(encoding="utf-8")).get("version")
    except (StopIteration, OSError, ValueError, AttributeError):
        return None
    return version if isinstance(version, int) else None


def reason_against(stage: Any, former: dict[str, int | None]) -> str | None:
    """Return why a stage's outputs cannot be taken over; None where they can."""
    name = stage.name.split("@")[0]
    absent = [str(out) for out in stage.outs if not out.exists]
    if absent:
        return f"{absent[0]} is not here; run dvc pull in the older version first"
    if name != "manifest" and former[name] not in (None, find_stage(name).version):
        return "this version computes something else"
    for dep in stage.deps:
        outside = not str(dep).startswith("cache/") and hasattr(dep, "hash_info")
        if outside and dep.hash_info and dep.exists and dep.changed_checksum():
            return f"{dep} changed since"
    if name == "embed":
        folder = paths.manifest(stage.name.split("@")[1].rsplit("-", 1)[0])
        rows = (image.sha256 for image in iterate_images(folder))
        try:
            store = open_embeddings(Path(str(stage.outs[0])))
            store.require({"rows_digest": rows_digest(rows)})
        except RefereeError as error:
            return str(error)
    return None


def upgrade() -> Iterator[str]:
    """Take over what can be; yield a line for each stage."""
    from dvc.repo import Repo

    logging.getLogger("dvc").setLevel(logging.ERROR)  # a line for every entry of dvc.lock otherwise
    yield from (changed := [*bring_up_to_date(), *renew_params()])
    lock = Path("dvc.lock")
    if not lock.is_file():
        if changed:
            return
        raise InputError("dvc.lock: no such file; run this in a project that an older version ran")
    former = {name: former_version(name) for name in TAKEN_OVER}
    for domain in load_params().domains:
        try:
            convert_manifest(paths.manifest(domain))
        except (RefereeError, OSError, LookupError, ValueError) as error:
            yield f"manifest@{domain}: made by the next dvc repro ({error})"
    forget_former_stages(lock)
    run_stage(["code"])
    with Repo() as repo, repo.lock:
        for stage in repo.index.stages:
            name = stage.name.split("@")[0]
            if name not in (*TAKEN_OVER, "code"):
                continue
            against = reason_against(stage, former) if name != "code" else None
            if against is None:
                # as `dvc commit`, for whoever has no images: what is absent keeps the hash that dvc.lock has
                stage.save(allow_missing=True, run_cache=False)
                stage.commit(allow_missing=True)
                stage.dump(update_pipeline=False)
            if name != "code":
                yield f"{stage.name}: {'taken over' if against is None else against}"


def run(_: argparse.Namespace) -> int:
    """Take over the features, and say what is next."""
    for line in upgrade():
        sys.stdout.write(f"{line}\n")
    sys.stdout.write("next: dvc repro --allow-missing, then commit dvc.lock and dvc push\n")
    return 0
