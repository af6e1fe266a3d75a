"""Read and write dvc.lock, in which DVC records the dependencies and outputs of every stage."""

import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline.errors import InputError
from pipeline.write_aside import write_text

LOCK = Path("dvc.lock")
RESTORE = "restore it with git checkout HEAD -- dvc.lock"

Stages = dict[str, dict[str, Any]]


def read_stages(file: Path = LOCK) -> Stages:
    """Return the recorded stages, or an empty dict before the first run."""
    return parse_stages(_bytes(file), str(file))


def parse_stages(content: bytes, name: str, *, resolve: str = "referee merge-lock") -> Stages:
    """Return the stages in the content of a dvc.lock, which error messages call ``name``.

    ``resolve`` is the remedy in the error message if git left a conflict in it.
    """
    _refuse_conflict(content, name, resolve)
    try:
        stages: Stages = (YAML(typ="safe").load(content.decode()) or {}).get("stages", {})
        if all("path" in end for entry in stages.values() for key in ("deps", "outs") for end in entry.get(key, ())):
            return stages
    except (YAMLError, AttributeError, TypeError, ValueError):
        pass
    raise InputError(f"{name}: not a dvc.lock; {RESTORE}")


def read_stage(name: str) -> dict[str, Any]:
    """Return the record of one stage, or {}, without parsing the rest, which takes seconds for 21 problems."""
    content = _bytes(LOCK)
    _refuse_conflict(content, str(LOCK), "referee merge-lock")
    block = re.search(rb"^  %s:\n(?:    .*\n?)*" % re.escape(name.encode()), content, re.MULTILINE)
    return parse_stages(b"stages:\n" + block[0], str(LOCK))[name] if block else {}


def write_stages(stages: Stages, file: Path = LOCK) -> None:
    """Write a dvc.lock in DVC's own form."""
    from dvc.utils.serialize import dumps_yaml

    write_text(file, dumps_yaml({"schema": "2.0", "stages": stages}))


def _bytes(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""


def _refuse_conflict(content: bytes, name: str, resolve: str) -> None:
    if re.search(rb"^(<<<<<<<|=======|>>>>>>>)", content, re.MULTILINE):
        raise InputError(f"{name}: git left a conflict in it; {resolve}")
