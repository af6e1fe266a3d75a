"""Take over the features of an older version of this package.

Run it once after an upgrade, with the caches on disk (`dvc pull` before the
upgrade, or `dvc repro` of the older version). Images and weights are not
needed. It brings your params.yaml and the manifests to today's form and
records manifests, models, embeddings and prompts in dvc.lock as outputs of
today's stages, so that nothing is extracted again. It names what it cannot
take over; the next `dvc repro` makes that. Change no setting in the same step.

reads:  dvc.lock, params.yaml, suite.yaml, cache/
writes: params.yaml, suite.yaml, cache/manifests, cache/code, dvc.lock; in a
        project of `referee init` also dvc.yaml (stages of your own are kept),
        docs/ and .dvc/plots
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
FORMER_RFF = {"D": 6000, "sigma": 1e-4, "convention": "gamma", "orthogonal": False}  # keys that could be left out


def renew_params() -> Iterator[str]:
    """Bring params.yaml and suite.yaml to today's form; yield what was done.

    Values stay as they are; what is added is empty, which means its defaults, so it changes no result there is.
    """
    settings = _load(PARAMS_FILE)
    former = {PARAMS_FILE: commented_yaml.dump(settings)}
    moved = {key: settings.pop(key) for key in (*Suite.model_fields, "lists") if key in settings}
    suite = moved or _load(SUITE_FILE)
    former[SUITE_FILE] = "" if moved else commented_yaml.dump(suite)
    done = [f"{SUITE_FILE}: {', '.join(moved)} are here now, as they were in {PARAMS_FILE}"] if moved else []
    for domain, file in lists_as_images(suite).items():
        done.append(f"{SUITE_FILE}: domains.{domain}.images is {file}, in place of `lists`")
    rff = settings.setdefault("rff", {})
    if rff.pop("bases", None):
        done.append(f"{PARAMS_FILE}: rff.bases is gone; it has no effect any more")
    for key, value in FORMER_RFF.items():
        if key not in rff:
            rff[key] = value
            done.append(f"{PARAMS_FILE}: rff.{key} is written now: {value}")
    for file, model, data in ((PARAMS_FILE, Settings, settings), (SUITE_FILE, Suite, suite)):
        for key in model.model_fields:
            if (empty := _empty(model, key, data)) is not None:
                data[key] = empty
                done.append(f"{file}: {key} is new, with its defaults")
    for file, data in ((SUITE_FILE, suite), (PARAMS_FILE, settings)):  # what moves is in both for a moment, not in none
        if (content := commented_yaml.dump(data)) != former[file]:
            write_text(file, content)
    yield from done


def lists_as_images(suite: Any) -> dict[str, Path]:
    """Take `lists` out of a suite and name one file of all lines in `images` of each domain that had any.

    The file is in the folder from which the paths in the lists start; one that is there is kept if it says the same and
    refused otherwise. Lines are taken from the copies that DVC has.
    """
    entries: dict[str, dict[str, Any]] = {}
    for name, entry in (suite.pop("lists", None) or {}).items():
        entries.setdefault(entry["domain"], {})[name] = entry
    files, texts = {}, {}
    for domain, lists in entries.items():
        root, *others = {entry["root"] for entry in lists.values()}
        if others:
            raise InputError(
                f"{SUITE_FILE}: lists: those of {domain} start from several folders; write one list of all its images, "
                f"name it in domains.{domain}.images and take them out"
            )
        copies = {name: Path("cache/lists", domain, f"{name}.txt") for name in lists}
        found = [copy if copy.is_file() else Path(lists[name]["file"]) for name, copy in copies.items()]
        files[domain] = file = Path(root, f"{domain}.txt")
        texts[file] = "".join(f"{one.read_text(encoding='utf-8').rstrip()}\n" for one in found)
        if file.exists() and file.read_text(encoding="utf-8", errors="replace").rstrip() != texts[file].rstrip():
            raise InputError(
                f"{file}: is there already, and is not the list of all images of {domain} that {SUITE_FILE}: lists "
                f"would become; move it away, or name it in domains.{domain}.images and take `lists` out"
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
        raise InputError(f"{file}: git left a conflict in it; take your own with `git checkout HEAD -- {file}`")
    return commented_yaml.load(text)


def _empty(model: type[Section], key: str, data: Any) -> dict[Any, Any] | list[Any] | None:
    """Return an absent section that may be empty as such; None where it is there, or may be absent or not empty."""
    if key in data or not (model.model_fields[key].is_required() or model is Settings):
        return None
    kind = type_at(model, [key])
    if get_origin(kind) in (list, dict):
        return [] if get_origin(kind) is list else {}
    optional = isinstance(kind, type) and issubclass(kind, Section)
    return {} if optional and not any(field.is_required() for field in kind.model_fields.values()) else None


def convert_manifest(folder: Path) -> None:
    """Write the folders of today's `manifest` from the files of an older version, if there are such."""
    former = folder / IMAGES.name
    if not former.is_file():
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
    former.unlink()  # before the others: a run that is killed while it is there begins again, and needs them all
    for file in folder.glob("*.csv"):
        file.unlink()


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file of any version: DVC's hash has vouched for it."""
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def reason_against(stage: Any, former: dict[str, int | None]) -> str | None:
    """Return why a stage's outputs cannot be taken over; None where they can."""
    name, _, keys = stage.name.partition("@")
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
        rows = (image.sha256 for image in iterate_images(paths.manifest(keys.rsplit("-", 1)[0])))
        try:
            open_embeddings(Path(str(stage.outs[0]))).require({"rows_digest": rows_digest(rows)})
        except RefereeError as error:
            return str(error)
    return None


def _former_version(stage: str) -> int | None:
    """Return the version under which a stage's outputs were made; None before stages had versions."""
    try:
        file = next(file for name in (stage, f"{stage}-*") for file in paths.CODE.glob(f"{name}.json"))
        version = json.loads(file.read_text(encoding="utf-8")).get("version")
    except (StopIteration, OSError, ValueError, AttributeError):
        return None
    return version if isinstance(version, int) else None


def take_over() -> Iterator[str]:
    """Record what can be taken over in dvc.lock as outputs of today's stages; yield a line for each stage."""
    from dvc.repo import Repo

    former = {name: _former_version(name) for name in TAKEN_OVER}
    for domain in load_params().domains:
        try:
            convert_manifest(paths.manifest(domain))
        except (RefereeError, OSError, LookupError, ValueError) as error:
            yield f"manifest@{domain}: made by the next dvc repro ({error})"
    today = YAML(typ="safe").load(GRAPH)["stages"]
    # without stages that are gone: DVC reads and writes dvc.lock once per stage
    write_stages({name: entry for name, entry in read_stages().items() if name.split("@")[0] in today})
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


def upgrade() -> Iterator[str]:
    """Take over what can be; yield a line for each stage, and what is next."""
    logging.getLogger("dvc").setLevel(logging.ERROR)  # a line for every entry of dvc.lock otherwise
    yield from (changed := [*bring_up_to_date(), *renew_params()])
    if LOCK.is_file():
        yield from take_over()
    elif not changed:
        raise InputError("dvc.lock: no such file; run this in a project that an older version ran")
    yield "next: dvc repro --allow-missing, then commit dvc.lock and dvc push"
