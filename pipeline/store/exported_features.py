"""Export features as one file for other programs: .npz, .parquet or .safetensors.

========================  =====================  ==============================================  ======================
content                   ``.npz``               ``.parquet``, one row per image                 ``.safetensors``
========================  =====================  ==============================================  ======================
features, float32         ``rows`` (n, d)        ``embedding``, a list of d numbers              ``rows`` (n, d)
paths of the images       ``paths`` (n,) texts   ``path``                                        ``paths``, UTF-8 bytes,
                                                                                                 joined by a zero byte
classes, if known         ``labels`` (n,)        ``label``, a Hugging Face `ClassLabel`          ``labels`` (n,)
names of the classes      ``classes`` (C,)       ``class``, and the names of `ClassLabel`        header, ``referee``
domain, model, view, …    ``about``, JSON        metadata of the schema, ``referee``             header, ``referee``
========================  =====================  ==============================================  ======================

.npz and .parquet are written block by block; the safetensors library needs all rows at once.
"""

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError
from pipeline.method.rows import Labels, Rows, row_blocks
from pipeline.write_aside import write_aside

BLOCK_ROWS = 32_768
HEADER = "referee"


@dataclass(frozen=True)
class ExportedFeatures:
    """Features of n images to be written; paths, labels and classes are None if private or unknown."""

    rows: Rows  # (n, d)
    about: Mapping[str, Any]  # plain JSON values: domain, model, view, backbone
    paths: Sequence[str] | None = None
    labels: Labels | None = None  # (n,)
    classes: Sequence[str] | None = None  # (C,)

    def blocks(self) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.float32]]]:
        """Yield blocks (row numbers, rows) in order."""
        for index in row_blocks(len(self.rows), BLOCK_ROWS):
            yield index, np.ascontiguousarray(self.rows[index], dtype="<f4")

    @property
    def header(self) -> str:
        """``about`` and the names of the classes as JSON."""
        classes = {} if self.classes is None else {"classes": list(self.classes)}
        return json.dumps({**self.about, **classes}, sort_keys=True, ensure_ascii=False)


def write_features(path: Path, form: str, features: ExportedFeatures) -> None:
    """Write a file in one of `FORMATS`."""
    with write_aside(path) as aside:
        FORMATS[form](aside, features)


def _write_npz(path: Path, features: ExportedFeatures) -> None:
    arrays: dict[str, Any] = {"about": np.array(features.header)}
    if features.paths is not None:
        arrays["paths"] = np.array(features.paths, dtype=np.str_)
    if features.labels is not None:
        arrays |= {"labels": features.labels, "classes": np.array(features.classes, dtype=np.str_)}
    with zipfile.ZipFile(path, "w") as file:  # as np.savez, but with constant dates: the same bytes

        def entry(name: str) -> Any:
            return file.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True)

        for name, array in arrays.items():
            with entry(name) as out:
                np.lib.format.write_array(out, array, allow_pickle=False)
        with entry("rows") as out:
            shape = {"descr": "<f4", "fortran_order": False, "shape": features.rows.shape}
            np.lib.format.write_array_header_1_0(out, shape)
            for _, block in features.blocks():
                out.write(block.data)


def _write_parquet(path: Path, features: ExportedFeatures) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError("--format parquet: needs pyarrow; pip install pyarrow") from None

    # type of each column for Parquet and for Hugging Face's `datasets`
    number, text = ({"dtype": dtype, "_type": "Value"} for dtype in ("float32", "string"))
    columns: dict[str, Any] = {"embedding": (pa.list_(pa.float32()), {"feature": number, "_type": "List"})}
    if features.paths is not None:
        columns["path"] = pa.string(), text
    if features.labels is not None:
        columns["label"] = pa.int64(), {"names": list(features.classes or ()), "_type": "ClassLabel"}
        columns["class"] = pa.string(), text
    info = {"info": {"features": {name: feature for name, (_, feature) in columns.items()}}}
    metadata = {"huggingface": json.dumps(info, ensure_ascii=False), HEADER: features.header}
    schema = pa.schema({name: kind for name, (kind, _) in columns.items()}, metadata=metadata)
    with pq.ParquetWriter(path, schema, compression="none") as file:  # the compression ratio is only 1.09
        for index, block in features.blocks():
            ends = np.arange(len(block) + 1, dtype=np.int32) * block.shape[1]
            values = {"embedding": pa.ListArray.from_arrays(ends, pa.array(block.reshape(-1)))}
            if features.paths is not None:
                values["path"] = pa.array([features.paths[row] for row in index])
            if features.labels is not None and features.classes is not None:
                labels = features.labels[index]
                values["label"] = pa.array(labels)
                values["class"] = pa.array([features.classes[label] for label in labels])
            file.write_table(pa.table(values, schema=schema))


def _write_safetensors(path: Path, features: ExportedFeatures) -> None:
    from safetensors.numpy import save_file

    tensors: dict[str, npt.NDArray[Any]] = {"rows": np.concatenate([block for _, block in features.blocks()])}
    if features.paths is not None:
        tensors["paths"] = np.frombuffer("\0".join(features.paths).encode(), dtype=np.uint8)
    if features.labels is not None:
        tensors["labels"] = np.asarray(features.labels, dtype=np.int64)
    save_file(tensors, path, metadata={HEADER: features.header})


FORMATS: dict[str, Callable[[Path, ExportedFeatures], None]] = {
    "npz": _write_npz,
    "parquet": _write_parquet,
    "safetensors": _write_safetensors,
}
