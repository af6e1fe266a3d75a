"""params.yaml and suite.yaml of an older version in today's form: sections that moved, that went, and that are new.

Values stay as they are; what is added is empty, which means its defaults, so it changes no result there is.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_origin

from pipeline import commented_yaml
from pipeline.errors import InputError
from pipeline.params import PARAMS_FILE, SUITE_FILE
from pipeline.settings import Settings
from pipeline.suite import Suite
from pipeline.validated_yaml import Section, type_at
from pipeline.write_aside import write_aside

GONE = (("rff", "bases"),)  # section and key
FORMER_RFF = {"D": 6000, "sigma": 1e-4, "convention": "gamma", "orthogonal": False}  # keys that could be left out


def renew_params() -> Iterator[str]:
    """Bring params.yaml and suite.yaml to today's form; yield what was done."""
    settings = _load(PARAMS_FILE)
    moved = {key: settings.pop(key) for key in (*Suite.model_fields, "lists") if key in settings}
    suite = moved or _load(SUITE_FILE)
    had_lists, listed = "lists" in suite, lists_as_images(suite)
    gone = [f"{section}.{key}" for section, key in GONE if settings.get(section, {}).pop(key, None)]
    new = {
        file: {key: empty for key in model.model_fields if (empty := _empty(model, key, data))}
        for file, model, data in ((PARAMS_FILE, Settings, settings), (SUITE_FILE, Suite, suite))
    }
    rff = settings.setdefault("rff", {})
    left_out = {key: value for key, value in FORMER_RFF.items() if key not in rff}
    rff.update(left_out)
    for file, data in ((SUITE_FILE, suite), (PARAMS_FILE, settings)):
        data.update({key: empty() for key, empty in new[file].items()})
        if new[file] or moved or ((gone or left_out) and file == PARAMS_FILE) or (had_lists and file == SUITE_FILE):
            with write_aside(file) as aside:
                aside.write_bytes(commented_yaml.dump(data))
    if moved:
        yield f"{SUITE_FILE}: {', '.join(moved)} are here now, as they were in {PARAMS_FILE}"
    yield from (
        f"{SUITE_FILE}: domains.{domain}.images is {file}, in place of `lists`" for domain, file in listed.items()
    )
    yield from (f"{PARAMS_FILE}: {key} is gone; it has no effect any more" for key in gone)
    yield from (f"{PARAMS_FILE}: rff.{key} is written now: {value}" for key, value in left_out.items())
    yield from (f"{file}: {key} is new, with its defaults" for file, keys in new.items() for key in keys)


def lists_as_images(suite: Any) -> dict[str, Path]:
    """Take `lists` out of a suite and name one file of all lines in `images` of each domain that had any.

    The file is in the folder from which the paths in the lists start; one that is there is kept if it says the same and
    refused otherwise. Lines are taken from the copies that DVC has.
    """
    lines: dict[str, str] = {}
    roots: dict[str, str] = {}
    for name, entry in (suite.pop("lists", None) or {}).items():
        domain, copy = entry["domain"], Path("cache/lists", entry["domain"], f"{name}.txt")
        if roots.setdefault(domain, entry["root"]) != entry["root"]:
            raise InputError(
                f"{SUITE_FILE}: lists: those of {domain} start from several folders; write one list of all its images, "
                f"name it in domains.{domain}.images and take them out"
            )
        text = (copy if copy.is_file() else Path(entry["file"])).read_text(encoding="utf-8")
        lines[domain] = f"{lines.get(domain, '')}{text.rstrip()}\n"
    files = {domain: Path(root, f"{domain}.txt") for domain, root in roots.items()}
    there = [file for file in files.values() if file.exists()]
    for domain, file in files.items():
        if file in there and file.read_text(encoding="utf-8", errors="replace").rstrip() != lines[domain].rstrip():
            raise InputError(
                f"{file}: is there already, and is not the list of all images of {domain} that {SUITE_FILE}: lists "
                f"would become; move it away, or name it in domains.{domain}.images and take `lists` out"
            )
    for domain, file in files.items():
        if file not in there:
            with write_aside(file) as aside:
                aside.write_text(lines[domain], encoding="utf-8")
        suite["domains"][domain]["images"] = str(file)
    return files


def _load(file: Path) -> Any:
    if not file.is_file():
        raise InputError(f"{file}: no such file; run this in the root of a project")
    text = file.read_text(encoding="utf-8")
    if "\n<<<<<<< " in f"\n{text}":
        raise InputError(f"{file}: git left a conflict in it; take your own with `git checkout HEAD -- {file}`")
    return commented_yaml.load(text)


def _empty(model: type[Section], key: str, data: Any) -> type[dict[Any, Any] | list[Any]] | None:
    """Return the kind of an absent section that may be empty; None where it is there, or may be absent or not empty."""
    kind = type_at(model, [key])
    if key in data or not (model.model_fields[key].is_required() or model is Settings):
        return None
    if get_origin(kind) is list:
        return list
    if get_origin(kind) is dict:
        return dict
    is_section = isinstance(kind, type) and issubclass(kind, Section)
    required = is_section and any(field.is_required() for field in kind.model_fields.values())
    return dict if is_section and not required else None
