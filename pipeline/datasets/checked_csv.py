"""Read and write CSV files with a digest beside them: plain tables for people and pandas, verified when opened.

The sha256 of ``labels.csv`` is in ``labels.csv.sha256``, in the format of ``sha256sum``, so that ``sha256sum -c``
verifies a folder. Tables that are read together are in one folder, cache/manifests/DOMAIN/FOLDER.

For a domain in `data.private`, images.csv (its paths contain class names), labels.csv and report.json are written to
private/DOMAIN, outside every stage's outputs, so that DVC never has them and no `dvc push` can send them. They are
replaced by a pointer with the file's sha256, so that DVC detects every change. Readers follow it on the owner's machine
and report elsewhere that the file is private. Former versions are kept in private/DOMAIN/former, because DVC may
restore an old pointer from its run-cache.
"""

import csv
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pipeline.errors import InputError, StoreError, counted, one_line, pass_on_machine_error
from pipeline.write_aside import write_aside

PRIVATE = "private"  # folder beside cache/
POINTER = ("kept_private", "sha256")
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
MAX_NUMBER = 2**31  # maximum task or class number, so that malformed files cannot exhaust memory

Parsed = TypeVar("Parsed")
CsvTable = tuple[Sequence[str], Iterable[Iterable[object]]]  # header, rows


def digest_file(path: Path) -> Path:
    """Return the path of the file with the sha256 of ``path``."""
    return path.with_name(f"{path.name}.sha256")


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_line(name: str, digest: str) -> str:
    """Return the content of a digest file, one line in the format of ``sha256sum``."""
    return f"{digest}  {name}\n"


def write_table(path: Path, header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def require_separator(path: Path, header: Sequence[str], separator: str = ",") -> None:
    """Raise InputError if a table has a single column whose name contains another separator."""
    separators = [name for other, name in SEPARATORS.items() if other != separator and other in "".join(header)]
    if len(header) == 1 and separators:
        raise InputError(
            f"{path}: its columns are separated by {separators[0]}; save it with {SEPARATORS[separator]} between them"
        )


@contextmanager
def writing_folder(folder: Path, tables: Mapping[str, CsvTable]) -> Iterator[None]:
    """Write tables by name, with their digests; they appear in ``folder`` when the context exits."""
    with write_aside(folder) as aside:
        aside.mkdir()
        for name, table in tables.items():
            write_table(aside / name, *table)
            line = digest_line(name, sha256_of(aside / name))
            digest_file(aside / name).write_text(line, encoding="utf-8", newline="\n")
        yield


@contextmanager
def keeping_private(manifest: Path, name: str) -> Iterator[Path]:
    """Yield the path for writing a file of private/DOMAIN; a file that it replaces is kept as a former version."""
    path = _private_path(manifest, name)
    with write_aside(path) as aside:
        yield aside
        if path.is_file():
            with write_aside(_former_path(manifest, name, sha256_of(path))) as former:
                former.write_bytes(path.read_bytes())


def _private_path(manifest: Path, name: str) -> Path:
    return manifest.parents[2] / PRIVATE / manifest.name / name


def _former_path(manifest: Path, name: str, digest: str) -> Path:
    return _private_path(manifest, "former") / f"{digest}-{name}"


def is_pointer(path: Path) -> bool:
    """Return whether a CSV file of a manifest is a pointer to a private file."""
    start = f"{','.join(POINTER)}\n".encode()
    try:
        with path.open("rb") as file:
            return file.read(len(start)) == start
    except FileNotFoundError:
        raise malformed(path, "no such file") from None


def read_table(
    path: Path,
    columns: Sequence[str],
    parse: Callable[[list[str]], Parsed],
    *,
    extra_columns: re.Pattern[str] | None = None,
    may_be_empty: bool = False,
) -> tuple[list[str], Iterator[Parsed]]:
    r"""Return the names of the columns after ``columns``, which must match ``extra_columns``, and the parsed rows.

    The whole file is hashed first, so a flipped bit or a lost or duplicated line raises StoreError.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp()) / "tasks"
    >>> with writing_folder(folder, {"classes.csv": (("label", "class"), [(0, "bike"), (1, "mug")])}):
    ...     pass
    >>> list(read_table(folder / "classes.csv", ("label", "class"), tuple)[1])
    [('0', 'bike'), ('1', 'mug')]
    >>> _ = (folder / "classes.csv").write_text("label,class\n0,mug\n1,bike\n")
    >>> read_table(folder / "classes.csv", ("label", "class"), tuple)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pipeline.errors.StoreError: ...classes.csv: damaged (not the file that its .sha256 names); ...
    """
    lines = _checked_lines(path)
    header = next(lines)
    extra_names = header[len(columns) :]
    names_match = extra_columns is not None and all(map(extra_columns.fullmatch, extra_names))
    if header[: len(columns)] != list(columns) or (extra_names and not names_match):
        raise malformed(path, f"has the columns {','.join(header)[:200]}, not {','.join(columns)}")

    def rows() -> Iterator[Parsed]:
        number = -1
        for number, row in enumerate(lines):
            if len(row) != len(header):
                raise malformed(path, f"row {number} has {counted(len(row), 'field')}, not {len(header)}")
            try:
                parsed = parse(row)
            except ValueError as error:
                raise malformed(path, f"row {number} is malformed ({error})") from None
            yield parsed
        if number < 0 and not may_be_empty:
            raise malformed(path, "has no rows")

    return extra_names, rows()


def _checked_lines(path: Path) -> Iterator[list[str]]:
    """Verify a file's digest, then yield its header and rows."""
    try:
        if digest_file(path).read_bytes() != digest_line(path.name, sha256_of(path)).encode():
            raise malformed(path, "damaged (not the file that its .sha256 names)")
        with (_resolve_pointer(path) if is_pointer(path) else path).open(encoding="utf-8", newline="") as file:
            lines = csv.reader(file, strict=True)
            yield next(lines, [])
            yield from lines
    except FileNotFoundError:
        raise malformed(path, "no .sha256 beside it" if path.exists() else "no such file") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise malformed(path, f"not CSV ({one_line(error)})") from None
    except OSError as error:
        pass_on_machine_error(error)
        raise malformed(path, f"cannot be read ({error.strerror})") from None


def _resolve_pointer(path: Path) -> Path:
    """Return the version of a private file that a pointer names; its text is compared and never used as a path."""
    current = _private_path(path.parents[1], path.name)
    digest = path.read_bytes()[-65:-1].decode(errors="replace")
    if re.fullmatch("[0-9a-f]{64}", digest):
        for version in (current, _former_path(path.parents[1], path.name, digest)):
            if version.exists() and sha256_of(version) == digest:
                return version
    if not current.exists():
        raise StoreError(f"{path}: kept private (data.private); its owner runs `dvc repro` and pushes the results")
    raise malformed(path, f"points to another version than {current}")


def parse_number(text: str, first: int = 0) -> int:
    """Parse a class or task number that counts from ``first`` and return it counted from 0."""
    number = int(text) - first
    if not 0 <= number < MAX_NUMBER:
        raise ValueError(f"{text!r} is not a class or task number")
    return number


def malformed(path: Path, problem: str) -> StoreError:
    """Return the error for an unusable table cache/manifests/DOMAIN/FOLDER/NAME.csv, with the remedy."""
    stage = "tasks" if path.parent.name == "tasks" else "manifest"
    return StoreError(f"{path}: {problem}; recreate it with dvc repro --force {stage}@{path.parents[1].name}")
