"""CSV files with a digest beside them: plain tables for people and pandas, checked when opened.

The sha256 of ``labels.csv`` stands in ``labels.csv.sha256``, in the format of ``sha256sum``, so
that ``sha256sum -c *.sha256`` checks a folder. A digest inside the CSV file would be data to
`pandas.read_csv`; one file with all digests would change whenever a label changes, and `adapt`,
which must not run again because a label changed, would depend on it.

Of a domain of `data.private`, images.csv (its paths contain class names), labels.csv and
report.json are written to private/DOMAIN, outside every stage's outputs: DVC never has them, so no
`dvc push` can send them. In their place stands a pointer with the file's sha256, so that DVC sees
every change. Readers follow it on the owner's machine; elsewhere they say that the file is private.
Former versions stay in private/DOMAIN/former: DVC may bring an old pointer back from its run-cache.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pipeline.errors import StoreError, one_line, pass_on_machine_error
from pipeline.write_aside import write_aside

PRIVATE = "private"  # the folder beside cache/
POINTER = ("kept_private", "sha256")


def digest_file(path: Path) -> Path:
    """Return the path of the file that holds the sha256 of ``path``."""
    return path.with_name(f"{path.name}.sha256")


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_line(name: str, digest: str) -> str:
    """Return the content of a digest file: one line as ``sha256sum`` writes it."""
    return f"{digest}  {name}\n"


def private_path(path: Path) -> Path:
    """Return where the file is kept whose pointer is cache/manifests/DOMAIN/NAME."""
    return path.parents[3] / PRIVATE / path.parent.name / path.name


def former_path(path: Path, digest: str) -> Path:
    """Return where a former version of a private file is kept, by its sha256."""
    return private_path(path).parent / "former" / f"{digest}-{path.name}"


def keep_former(path: Path) -> None:
    """Keep the private file of cache/manifests/DOMAIN/NAME, if there is one, before another takes its place."""
    kept = private_path(path)
    if kept.is_file():
        with write_aside(former_path(path, sha256_of(kept))) as aside:
            aside.write_bytes(kept.read_bytes())


def pointer(name: str, digest: str) -> str:
    """Return the text of a pointer to a file with this sha256: CSV for a CSV file, else JSON."""
    if name.endswith(".json"):
        return json.dumps(dict(zip(POINTER, (name, digest), strict=True)), indent=2) + "\n"
    return f"{','.join(POINTER)}\n{name},{digest}\n"


def is_private(path: Path) -> bool:
    """Tell whether a CSV file of a manifest is a pointer to a private file."""
    start = f"{','.join(POINTER)}\n".encode()
    try:
        with path.open("rb") as file:
            return file.read(len(start)) == start
    except FileNotFoundError:
        raise malformed(path, "no such file") from None


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a table; the caller writes the digest once the file is whole."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def read_csv(path: Path, *, may_be_empty: bool = False) -> Iterator[list[str]]:
    r"""Yield the header, then the rows, of a file whose digest is right; at least one unless it ``may_be_empty``.

    The whole file is hashed before its first row is yielded: a flipped bit, a lost or doubled line
    is a `StoreError` and never a number.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "classes.csv"
    >>> write_csv(file, ("label", "class"), [(0, "bike"), (1, "mug")])
    >>> _ = digest_file(file).write_text(digest_line(file.name, sha256_of(file)))
    >>> list(read_csv(file))
    [['label', 'class'], ['0', 'bike'], ['1', 'mug']]
    >>> _ = file.write_text("label,class\n0,mug\n1,bike\n")
    >>> list(read_csv(file))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pipeline.errors.StoreError: ...classes.csv: damaged (not the file that its .sha256 names); ...
    """
    try:
        _check_digest(path)
        with _follow(path).open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file, strict=True)
            header = next(rows, [])
            yield header
            number = -1
            for number, row in enumerate(rows):
                if len(row) != len(header):
                    raise malformed(path, f"row {number} has {len(row)} fields, not {len(header)}")
                yield row
    except FileNotFoundError as error:
        raise malformed(Path(error.filename), "no such file") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise malformed(path, f"not CSV ({one_line(error)})") from None
    except OSError as error:
        pass_on_machine_error(error)
        raise malformed(path, f"cannot be read ({error.strerror})") from None
    if number < 0 and not may_be_empty:
        raise malformed(path, "has no rows")


def _check_digest(path: Path) -> None:
    expected = digest_line(path.name, sha256_of(path)).encode()
    with digest_file(path).open("rb") as file:
        if file.read(len(expected) + 1) != expected:
            raise malformed(path, "damaged (not the file that its .sha256 names)")


def _follow(path: Path) -> Path:
    """Return ``path``, or the private file that it points to, whose digest is checked."""
    with path.open("rb") as file:
        start = file.read(len(pointer(path.name, "")) + 64)
    if not start.startswith(f"{','.join(POINTER)}\n".encode()):
        return path
    kept, digest = private_path(path), start[-65:-1].decode(errors="replace")
    former = [former_path(path, digest)] if re.fullmatch("[0-9a-f]{64}", digest) else []
    for version in (kept, *former):
        if version.exists() and start == pointer(path.name, sha256_of(version)).encode():
            return version
    if not kept.exists():
        raise malformed(path, "kept private (data.private): its owner has it, and what reads it runs there")
    raise malformed(kept, f"not the file that {path} points to")


def malformed(path: Path, problem: str) -> StoreError:
    """Return the error of a manifest file that cannot be used: what is wrong, and the remedy."""
    stage = "tasks" if path.name in ("tasks.csv", "classes.csv") else "manifest"
    return StoreError(f"{path}: {problem}; make it again with dvc repro --force {stage}@{path.parent.name}")
