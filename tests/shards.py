"""Write images to tar files and to Parquet files with the metadata of Hugging Face's datasets."""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def write_tar(file: Path, members: Mapping[str, bytes]) -> Path:
    """Write members to a tar file, in their order."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w") as tar:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return file


def write_parquet(
    file: Path,
    images: Sequence[bytes | None],
    *,
    names: Mapping[str, Sequence[str]] = {},
    rows_per_group: int = 100,
    **columns: Sequence[Any],
) -> Path:
    """Write images and other columns as `datasets.Dataset.to_parquet` does; ``names`` makes columns class labels."""
    file.parent.mkdir(parents=True, exist_ok=True)
    cells = [None if data is None else {"bytes": data, "path": "1.png"} for data in images]
    image = pa.array(cells, pa.struct({"bytes": pa.binary(), "path": pa.string()}))
    table = pa.table({"image": image, **columns})
    features: dict[str, Any] = {"image": {"_type": "Image"}}
    features |= {name: {"names": list(n), "_type": "ClassLabel"} for name, n in names.items()}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(table.replace_schema_metadata(metadata), file, row_group_size=rows_per_group)
    return file


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the content of all files in a folder, keyed and sorted by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
