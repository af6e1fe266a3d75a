"""CSV files with a digest beside them: plain tables for people and pandas, checked when opened.

The sha256 of ``labels.csv`` stands in ``labels.csv.sha256``, in the format of ``sha256sum``, so that ``sha256sum -c``
checks a folder. Tables that are read together are in one folder, cache/manifests/DOMAIN/FOLDER.

Of a domain of `data.private`, images.csv (its paths contain class names), labels.csv and report.json are written to
private/DOMAIN, outside every stage's outputs: DVC never has them, so no `dvc push` can send them. In their place stands
a pointer with the file's sha256, so that DVC sees every change. Readers follow it on the owner's machine; elsewhere
they say that the file is private. Former versions stay in private/DOMAIN/former: DVC may bring an old pointer back from
its run-cache.
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

PRIVATE = "private"  # the folder beside cache/
POINTER = ("kept_private", "sha256")
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
MAX_NUMBER = 2**31  # of a task or class: a bound on what a malformed file may ask for

Parsed = TypeVar("Parsed")
CsvTable = tuple[Sequence[str], Iterable[Iterable[object]]]  # header, rows


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


def write_table(path: Path, header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def require_separator(path: Path, header: Sequence[str], separator: str = ",") -> None:
    """Refuse a person's table that has one column, in whose name another separator stands."""
    found = [name for one, name in SEPARATORS.items() if one != separator and one in "".join(header)]
    if len(header) == 1 and found:
        raise InputError(
            f"{path}: its columns are separated by {found[0]}; save it with {SEPARATORS[separator]} between them"
        )


@contextmanager
def writing_folder(folder: Path, tables: Mapping[str, CsvTable]) -> Iterator[None]:
    """Write tables by name, with their digests, aside; ``folder`` has them when the context ends."""
    with write_aside(folder) as aside:
        aside.mkdir()
        for name, table in tables.items():
            write_table(aside / name, *table)
            line = digest_line(name, sha256_of(aside / name))
            digest_file(aside / name).write_text(line, encoding="utf-8", newline="\n")
        yield


@contextmanager
def keeping_private(manifest: Path, name: str) -> Iterator[Path]:
    """Yield where to write a file of private/DOMAIN; the one that it replaces is kept as a former version."""
    kept = _private(manifest, name)
    with write_aside(kept) as aside:
        yield aside
        if kept.is_file():
            with write_aside(_former(manifest, name, sha256_of(kept))) as former:
                former.write_bytes(kept.read_bytes())


def _private(manifest: Path, name: str) -> Path:
    return manifest.parents[2] / PRIVATE / manifest.name / name


def _former(manifest: Path, name: str, digest: str) -> Path:
    return _private(manifest, "former") / f"{digest}-{name}"


def is_pointer(path: Path) -> bool:
    """Tell whether a CSV file of a manifest is a pointer to a private file."""
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
    more: re.Pattern[str] | None = None,
    may_be_empty: bool = False,
) -> tuple[list[str], Iterator[Parsed]]:
    r"""Return the names of the columns after ``columns``, which match ``more``, and the parsed rows.

    The whole file is hashed first: a flipped bit, a lost or doubled line is a `StoreError` and never a number.

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
    others = header[len(columns) :]
    if header[: len(columns)] != list(columns) or (others and not (more and all(map(more.fullmatch, others)))):
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

    return others, rows()


def _checked_lines(path: Path) -> Iterator[list[str]]:
    """Yield the header and the rows of a file whose digest is right."""
    try:
        if digest_file(path).read_bytes() != digest_line(path.name, sha256_of(path)).encode():
            raise malformed(path, "damaged (not the file that its .sha256 names)")
        with (_private_file(path) if is_pointer(path) else path).open(encoding="utf-8", newline="") as file:
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


def _private_file(path: Path) -> Path:
    """Return the version of a private file that a pointer names; what it says is compared and never opened."""
    kept = _private(path.parents[1], path.name)
    digest = path.read_bytes()[-65:-1].decode(errors="replace")
    if re.fullmatch("[0-9a-f]{64}", digest):
        for version in (kept, _former(path.parents[1], path.name, digest)):
            if version.exists() and sha256_of(version) == digest:
                return version
    if not kept.exists():
        raise StoreError(f"{path}: kept private (data.private); its owner runs `dvc repro` and pushes what reads it")
    raise malformed(path, f"points to another version than {kept}")


def number_of(text: str, first: int = 0) -> int:
    """Return a number of a class or task, which counts from ``first`` in the file, as one that counts from 0."""
    number = int(text) - first
    if not 0 <= number < MAX_NUMBER:
        raise ValueError(f"{text!r} is no number of a class or task")
    return number


def malformed(path: Path, problem: str) -> StoreError:
    """Return the error of a table cache/manifests/DOMAIN/FOLDER/NAME.csv that cannot be used, with the remedy."""
    stage = "tasks" if path.parent.name == "tasks" else "manifest"
    return StoreError(f"{path}: {problem}; make it again with dvc repro --force {stage}@{path.parents[1].name}")
