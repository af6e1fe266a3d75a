"""A file that a stage wrote into results/, read back: what is wrong with it is one line that names the stage to run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.errors import StoreError


def text_of(path: Path, stage: str) -> str:
    """Return the text of a file that ``stage`` writes."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise StoreError(
            f"{path}: no such file; run dvc repro {stage}, or dvc pull --allow-missing"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: cannot be read ({error}); run dvc repro {stage}") from None


def json_of(path: Path, stage: str) -> Any:
    """Return what a JSON file of ``stage`` holds."""
    try:
        return json.loads(text_of(path, stage))
    except (ValueError, RecursionError):
        raise malformed(path, "not JSON", stage) from None


def malformed(path: Path, what: str, stage: str) -> StoreError:
    """Return the error that a file is not as ``stage`` writes it."""
    line = " ".join(what.split())  # one line, whatever a key of the file holds
    return StoreError(f"{path}: {line}; run dvc repro --force {stage}")
