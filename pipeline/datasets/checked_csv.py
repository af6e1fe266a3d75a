"""CSV files with a digest beside them: plain tables for people and pandas, checked when opened.

The sha256 of ``labels.csv`` stands in ``labels.csv.sha256``, in the format of ``sha256sum``, so
that ``sha256sum -c *.sha256`` checks a folder. A digest inside the CSV file would be data to
`pandas.read_csv`; one file with all digests would change whenever a label changes, and `adapt`,
which must not run again because a label changed, would depend on it.

Of a domain of `data.private`, images.csv (its paths contain class names), labels.csv and
report.json are written to private/DOMAIN, outside every stage's outputs: DVC never has them, so no
`dvc push` can send them. In their place stands a pointer with the file's sha256, so that DVC sees
every change. Readers follow it on the owner's machine; elsewhere they say that the file is private.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pipeline.errors import StoreError, one_line, pass_on_machine_error

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


def pointer(name: str, digest: str) -> str:
    """Return the text of a pointer to a file with this sha256: CSV for a CSV file, else JSON."""
    if name.endswith(".json"):
        return json.dumps(dict(zip(POINTER, (name, digest), strict=True)), indent=2) + "\n"
    return f"{','.join(POINTER)}\n{name},{digest}\n"


def is_private(path: Path) -> bool:
    """Tell whether a CSV file of a manifest is a pointer to a private file."""
    start = f"{','.join(POINTER)}\n".encode()
    with path.open("rb") as file:
        return file.read(len(start)) == start


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a table; the caller writes the digest once the file is whole."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def read_csv(path: Path) -> Iterator[list[str]]:
    r"""Yield the header, then the rows, of a file whose digest is right; at least one row.

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
    if number < 0:
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
    kept = private_path(path)
    if not kept.exists():
        raise malformed(
            path, "kept private (data.private): its owner has it, and what reads it runs there"
        )
    if start != pointer(path.name, sha256_of(kept)).encode():
        raise malformed(kept, f"not the file that {path} points to")
    return kept


def malformed(path: Path, problem: str) -> StoreError:
    """Return the error of a manifest file that cannot be used: what is wrong, and the remedy."""
    return StoreError(
        f"{path}: {problem}; make it again with dvc repro --force manifest@{path.parent.name}"
    )
