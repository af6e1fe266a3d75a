"""Reading the files that stages write into results/. Every error names the file and the stage to run again."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from pipeline.errors import StoreError

if TYPE_CHECKING:
    from pandas import DataFrame

Content = TypeVar("Content")


def read_json(path: Path, kind: type[Content], stage: str) -> Content:
    """Return the content of a JSON file that the DVC stage ``stage`` writes, validated as a ``kind``."""
    try:
        return TypeAdapter(kind).validate_json(_read_text(path, stage), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise _malformed(path, f"{key}: {first['msg']}" if key else first["msg"], stage) from None


def read_table(path: Path, columns: Mapping[str, type[Any]], stage: str) -> DataFrame:
    """Return a CSV file that the DVC stage ``stage`` writes.

    Its first columns are ``columns``, of these types; those that follow hold floats. No cell is
    missing and every number is finite.
    """
    import pandas as pd

    header, *lines = list(csv.reader(io.StringIO(_read_text(path, stage)))) or [[]]
    if header[: len(columns)] != list(columns):
        raise _malformed(path, f"its columns do not begin with {','.join(columns)}", stage)
    if any(len(line) != len(header) for line in lines):
        raise _malformed(path, f"a line does not have {len(header)} values", stage)
    try:
        # not pd.read_csv, which takes a class called NA for a missing value
        table = pd.DataFrame(lines, columns=header, dtype=str).astype(dict.fromkeys(header, float) | dict(columns))
    except ValueError as error:
        raise _malformed(path, str(error), stage) from None
    if not np.isfinite(table.select_dtypes("number").to_numpy()).all():
        raise _malformed(path, "a number is not finite", stage)
    return table


def _malformed(path: Path, what: str, stage: str) -> StoreError:
    """Return the error that a file is not as ``stage`` writes it, in one line."""
    return StoreError(f"{path}: {' '.join(what.split())}; run dvc repro --force {stage}")


def _read_text(path: Path, stage: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise StoreError(f"{path}: no such file; run dvc repro {stage}, or dvc pull --allow-missing") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: cannot be read ({error}); run dvc repro {stage}") from None
