"""dvc.lock, where DVC records of every stage what it read and wrote; broken, it is one line with the remedy."""

import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline.errors import InputError
from pipeline.write_aside import write_text

LOCK = Path("dvc.lock")

Stages = dict[str, dict[str, Any]]


def read_stages(file: Path = LOCK) -> Stages:
    """Return what is recorded of every stage; before the first run nothing."""
    return parse_stages(_text(file), str(file))


def parse_stages(text: str, name: str) -> Stages:
    """Return the stages of a dvc.lock that messages call ``name``; of an empty one none."""
    if re.search(r"^(<<<<<<<|=======|>>>>>>>)", text, re.MULTILINE):
        raise InputError(f"{name}: git left a conflict in it; referee merge-lock")
    try:
        return {stage: dict(entry) for stage, entry in (YAML(typ="safe").load(text) or {}).get("stages", {}).items()}
    except (YAMLError, AttributeError, TypeError, ValueError):
        raise InputError(f"{name}: not a dvc.lock; restore it with git checkout --ours dvc.lock") from None


def read_stage(name: str) -> dict[str, Any]:
    """Return what is recorded of one stage, {} if nothing is; parsing all of 21 problems would take seconds."""
    block = re.search(rf"^  {re.escape(name)}:\n(?:    .*\n?)*", _text(LOCK), re.MULTILINE)
    return parse_stages(f"stages:\n{block[0]}", str(LOCK))[name] if block else {}


def write_stages(stages: Stages, file: Path = LOCK) -> None:
    """Write a dvc.lock in DVC's own form."""
    from dvc.utils.serialize import dumps_yaml

    write_text(file, dumps_yaml({"schema": "2.0", "stages": stages}))


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
