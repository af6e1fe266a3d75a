"""Reuse the features computed by an older version.

Run it once after upgrading the package, with the caches on disk (`dvc pull`
before the upgrade, or `dvc repro` with the older version). Images and weights
are not needed. It converts params.yaml, suite.yaml and the manifests to the current
format and records manifests, models, embeddings and prompts in dvc.lock as
outputs of the current stages, so that nothing is extracted again. It lists
everything that cannot be reused; the next `dvc repro` computes it. Do not
change settings at the same time.

reads:  dvc.lock, params.yaml, suite.yaml, cache/
writes: params.yaml, suite.yaml, cache/manifests, cache/code, dvc.lock; in a
        project created by `referee init` also dvc.yaml (your own stages are
        kept), docs/ and .dvc/plots
examples:
  referee upgrade && dvc repro --allow-missing
"""

import csv
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_origin

from ruamel.yaml import YAML

from pipeline import commented_yaml, paths
from pipeline.config.params import PARAMS_FILE, SUITE_FILE, load_params
from pipeline.config.settings import Settings
from pipeline.config.suite import Suite
from pipeline.datasets.checked_csv import is_pointer
from pipeline.datasets.manifest_files import IMAGES, ImageRow, Manifest, iterate_images, rows_digest, write_manifest
from pipeline.dvc_lock import LOCK, read_stages, write_stages
from pipeline.errors import InputError, RefereeError
from pipeline.installed_project import GRAPH, bring_up_to_date
from pipeline.stage import find_stage
from pipeline.stage import main as run_stage
from pipeline.store.embedding_store import open_embeddings
from pipeline.validated_yaml import Section, type_at
from pipeline.write_aside import write_text

TAKEN_OVER = ("manifest", "model", "embed", "prompts")
# defaults of an older version, for keys that are required now
FORMER_RFF = {"D": 6000, "sigma": 1e-4, "convention": "gamma", "orthogonal": False}


def renew_params() -> Iterator[str]:
    """Convert params.yaml and suite.yaml to the current format; yield a line per change.

    Values are kept. Added sections are empty, which means their defaults, so existing results stay valid.
    """
    settings = _load(PARAMS_FILE)
    original = {PARAMS_FILE: commented_yaml.dump(settings)}
    moved = {key: settings.pop(key) for key in (*Suite.model_fields, "lists") if key in settings}
    suite = moved or _load(SUITE_FILE)
    original[SUITE_FILE] = "" if moved else commented_yaml.dump(suite)
    changes = [f"{SUITE_FILE}: {', '.join(moved)} moved here unchanged from {PARAMS_FILE}"] if moved else []
    for domain, file in replace_lists(suite).items():
        changes.append(f"{SUITE_FILE}: domains.{domain}.images is now {file}, which replaces `lists`")
    rff = settings.setdefault("rff", {})
    if rff.pop("bases", None):
        changes.append(f"{PARAMS_FILE}: rff.bases removed; it no longer has any effect")
    for key, value in FORMER_RFF.items():
        if key not in rff:
            rff[key] = value
            changes.append(f"{PARAMS_FILE}: rff.{key}: {value} added, its former default")
    for file, model, data in ((PARAMS_FILE, Settings, settings), (SUITE_FILE, Suite, suite)):
        for key in model.model_fields:
            if (empty := _empty(model, key, data)) is not None:
                data[key] = empty
                changes.append(f"{file}: {key} added, with its defaults")
    for file, data in ((SUITE_FILE, suite), (PARAMS_FILE, settings)):  # in this order, a kill loses no moved section
        if (content := commented_yaml.dump(data)) != original[file]:
            write_text(file, content)
    yield from changes


def replace_lists(suite: Any) -> dict[str, Path]:
    """Remove `lists` from a suite; return the file that replaces them in `images` of each domain that had any.

    The file joins the lines of all lists, from DVC's copies if there are any. It is in the folder that paths in the
    lists are relative to. An existing file is kept if its content is the same, otherwise InputError is raised.
    """
    entries: dict[str, dict[str, Any]] = {}
    for name, entry in (suite.pop("lists", None) or {}).items():
        entries.setdefault(entry["domain"], {})[name] = entry
    files, texts = {}, {}
    for domain, lists in entries.items():
        root, *others = {entry["root"] for entry in lists.values()}
        if others:
            raise InputError(
                f"{SUITE_FILE}: lists: those of {domain} have several roots; write one list of all its images, "
                f"name it in domains.{domain}.images and remove `lists`"
            )
        copies = {name: Path("cache/lists", domain, f"{name}.txt") for name in lists}
        parts = [copy if copy.is_file() else Path(lists[name]["file"]) for name, copy in copies.items()]
        files[domain] = file = Path(root, f"{domain}.txt")
        texts[file] = "".join(f"{part.read_text(encoding='utf-8').rstrip()}\n" for part in parts)
        if file.exists() and file.read_text(encoding="utf-8", errors="replace").rstrip() != texts[file].rstrip():
            raise InputError(
                f"{file}: already exists, and differs from the list of all images of {domain} that replaces `lists` "
                f"of {SUITE_FILE}; move it away, or name it in domains.{domain}.images and remove `lists`"
            )
    for domain, file in files.items():
        if not file.exists():
            write_text(file, texts[file])
        suite["domains"][domain]["images"] = str(file)
    return files


def _load(file: Path) -> Any:
    if not file.is_file():
        raise InputError(f"{file}: no such file; run this in the root of a project")
    text = file.read_text(encoding="utf-8")
    if "\n<<<<<<< " in f"\n{text}":
        raise InputError(f"{file}: has a git conflict; keep your version with `git checkout HEAD -- {file}`")
    return commented_yaml.load(text)


def _empty(model: type[Section], key: str, data: Any) -> dict[Any, Any] | list[Any] | None:
    """Return an empty value for a missing section, or None if it exists, is optional or must not be empty."""
    if key in data or not (model.model_fields[key].is_required() or model is Settings):
        return None
    kind = type_at(model, [key])
    if get_origin(kind) in (list, dict):
        return [] if get_origin(kind) is list else {}
    is_section = isinstance(kind, type) and issubclass(kind, Section)
    return {} if is_section and not any(field.is_required() for field in kind.model_fields.values()) else None


def convert_manifest(folder: Path) -> None:
    """Convert a manifest written by an older version to the current layout, if there is one in the folder."""
    table = folder / IMAGES.name
    if not table.is_file():
        return
    if is_pointer(table):
        raise InputError(
            f"{folder}: private; its owner runs `dvc repro manifest@{folder.name}`, which extracts no features"
        )
    images = [ImageRow(row["path"], row["sha256"], int(row["width"]), int(row["height"])) for row in _rows(table)]
    labels = [row["class"] for row in _rows(folder / "labels.csv")]
    names = sorted(row["class"] for row in _rows(folder / "classes.csv"))
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    write_manifest(Manifest(images, labels, names, report), folder)
    table.unlink()  # first: while it exists, an interrupted conversion starts again and needs all the other files
    for file in folder.glob("*.csv"):
        file.unlink()


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file of any version, unchecked: DVC has verified its hash."""
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def find_obstacle(stage: Any, former_versions: dict[str, int | None]) -> str | None:
    """Return why a stage's outputs cannot be taken over, or None if they can."""
    name, _, keys = stage.name.partition("@")
    absent = [str(out) for out in stage.outs if not out.exists]
    if absent:
        return f"{absent[0]} is missing; run dvc pull in the older version first"
    if name != "manifest" and former_versions[name] not in (None, find_stage(name).version):
        return "this version computes it differently"
    for dep in stage.deps:
        outside = not str(dep).startswith("cache/") and hasattr(dep, "hash_info")
        if outside and dep.hash_info and dep.exists and dep.changed_checksum():
            return f"{dep} has changed since"
    if name == "embed":
        rows = (image.sha256 for image in iterate_images(paths.manifest(keys.rsplit("-", 1)[0])))
        try:
            open_embeddings(Path(str(stage.outs[0]))).require({"rows_digest": rows_digest(rows)})
        except RefereeError as error:
            return str(error)
    return None


def _former_version(stage: str) -> int | None:
    """Return the stage version that computed the outputs, or None if they predate versions."""
    try:
        file = next(file for name in (stage, f"{stage}-*") for file in paths.CODE.glob(f"{name}.json"))
        version = json.loads(file.read_text(encoding="utf-8")).get("version")
    except (StopIteration, OSError, ValueError, AttributeError):
        return None
    return version if isinstance(version, int) else None


def take_over() -> Iterator[str]:
    """Record reusable outputs in dvc.lock as outputs of the current stages; yield a line per stage."""
    from dvc.repo import Repo

    former_versions = {name: _former_version(name) for name in TAKEN_OVER}
    for domain in load_params().domains:
        try:
            convert_manifest(paths.manifest(domain))
        except (RefereeError, OSError, LookupError, ValueError) as error:
            yield f"manifest@{domain}: left to the next dvc repro ({error})"
    current = YAML(typ="safe").load(GRAPH)["stages"]
    # drop obsolete stages: DVC reads and writes dvc.lock once per stage
    write_stages({name: entry for name, entry in read_stages().items() if name.split("@")[0] in current})
    run_stage(["code"])
    with Repo() as repo, repo.lock:
        for stage in repo.index.stages:
            name = stage.name.split("@")[0]
            if name not in (*TAKEN_OVER, "code"):
                continue
            obstacle = find_obstacle(stage, former_versions) if name != "code" else None
            if obstacle is None:
                # like `dvc commit`, but missing files, such as a teammate's images, keep their hash in dvc.lock
                stage.save(allow_missing=True, run_cache=False)
                stage.commit(allow_missing=True)
                stage.dump(update_pipeline=False)
            if name != "code":
                yield f"{stage.name}: {'taken over' if obstacle is None else obstacle}"


def upgrade() -> Iterator[str]:
    """Convert files and take over outputs; yield a line per change and stage, and the next command."""
    logging.getLogger("dvc").setLevel(logging.ERROR)  # otherwise one line per entry of dvc.lock
    yield from (changed := [*bring_up_to_date(), *renew_params()])
    if LOCK.is_file():
        yield from take_over()
    elif not changed:
        raise InputError("dvc.lock: no such file; run this in a project that an older version ran")
    yield "next: dvc repro --allow-missing, then commit dvc.lock and dvc push"
