"""Corrections: images of a step that a person looked at, as a CSV file with the columns `path` and `class`."""

import csv
from collections.abc import Sequence
from pathlib import Path

from pipeline.datasets.checked_csv import require_separator
from pipeline.errors import InputError, did_you_mean, one_line

COLUMNS = ("path", "class")
EMPTY = ",".join(COLUMNS) + "\n"


def read_corrections(file: Path, images: Sequence[str], classes: Sequence[str]) -> dict[int, str]:
    r"""Return row number and class of each corrected one of a step's ``images``, named as in its table.

    Columns other than `path` and `class` are ignored, so that lines of results/SUITE/streams/STEP.csv can be copied.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "week1.csv"
    >>> _ = file.write_text("path,class\nphotos/b.jpg,mug\n")
    >>> read_corrections(file, ["photos/a.jpg", "photos/b.jpg"], ["bike", "mug"])
    {1: 'mug'}
    """
    row_of = {path: row for row, path in enumerate(images)}
    corrected: dict[int, str] = {}
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            header = reader.fieldnames or []
            require_separator(file, header)
            if any(name not in header for name in COLUMNS):
                raise InputError(f"{file}: has the columns {','.join(header)[:80]!r}, not path,class")
            for line in reader:
                path, name = line["path"] or "", line["class"] or ""
                at = f"{file}: line {reader.line_num}"
                if path not in row_of:
                    raise InputError(f"{at}: {path!r} is no image of this step{did_you_mean(path, images)}")
                if name not in classes:
                    raise InputError(f"{at}: {name!r} is no class of this step{did_you_mean(name, classes)}")
                if corrected.setdefault(row_of[path], name) != name:
                    raise InputError(f"{at}: {path!r} has two classes; keep one line")
    except FileNotFoundError:
        raise InputError(f"{file}: no such file; write one with the line `path,class`") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not CSV ({one_line(error)}); write `path,class` lines") from None
    return corrected
