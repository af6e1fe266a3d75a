"""Show the contents and settings of a store under cache/.

A store is a Zarr group written by a stage. Prints its arrays (for embeddings,
the rows, width, type and norms of each view) and the settings it was computed
with: backbone, sha256 of the weights, preprocessing. With --remote, reads
shapes, types and settings from the DVC remote without pulling the store.

reads:  the named stores
writes: nothing
examples:
  referee inspect cache/embeddings/mnist/vit.zarr
  referee inspect --json cache/target/mnist-uci.zarr
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.errors import StoreError, counted, did_you_mean
from pipeline.revision_files import RemoteOutputs

if TYPE_CHECKING:
    from pipeline.store.embedding_store import EmbeddingStore


def describe(path: Path) -> dict[str, Any]:
    """Return a store's ``title``, the facts of its ``arrays`` by name, and its ``provenance``."""
    from pipeline.store import embedding_store, prompt_store
    from pipeline.store.array_store import open_arrays

    if not path.exists():
        hint = did_you_mean(str(path), map(str, Path("cache").rglob("*.zarr"))) or "; cache/ has no stores yet"
        raise StoreError(
            f"{path}: no such store{hint}; `dvc repro` computes the stores of dvc.yaml, "
            "`dvc pull` fetches those of teammates"
        )
    schema = _schema(path)
    if schema in (None, embedding_store.SCHEMA):
        store = embedding_store.open_embeddings(path)
        title = f"{counted(store.rows, 'row')}, width {store.width}"
        arrays = {view: _view_facts(store, view) for view in store.views}
        provenance = {key: value for key, value in store.provenance.items() if key != "views"}
    elif schema == prompt_store.SCHEMA:
        prompts = prompt_store.open_prompts(path)
        title = "text embeddings of {} classes, width {}".format(*prompts.text.shape)
        arrays = {"text": _array_facts(prompts.text)}
        provenance = {"logit_scale": prompts.logit_scale, **prompts.provenance}
    else:
        group = open_arrays(path, schema)
        arrays = {name: _array_facts(group.read(name)) for name in sorted(group.arrays)}
        title = counted(len(arrays), "array")
        provenance = {"schema": schema, **group.attributes}
    return {"title": title, "arrays": arrays, "provenance": provenance}


def _schema(path: Path) -> str | None:
    """Return the schema of a store, or None if it cannot be read: `open_embeddings` then explains why."""
    try:
        attributes = json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"]
        return str(attributes.get("schema"))
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None


def _view_facts(store: EmbeddingStore, view: str) -> dict[str, Any]:
    """Return shape, type, norms and settings of a view, in bounded memory."""
    blocks = (np.linalg.norm(block.astype(np.float64), axis=1) for block in store.blocks(view))
    norms = np.concatenate([np.empty(0), *blocks])
    finite = norms[np.isfinite(norms)]
    quantiles = np.quantile(finite, [0, 0.5, 1]).tolist() if finite.size else [np.nan] * 3
    return {
        "shape": [store.rows, store.width],
        "dtype": str(store.dtype(view)),
        "not_finite": int(norms.size - finite.size),
        **dict(zip(("norm_min", "norm_median", "norm_max"), quantiles, strict=True)),
        "settings": store.settings(view),
    }


def _array_facts(values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return shape and type of an array and the number of values that are not finite."""
    finite = np.isfinite(values).sum() if values.dtype.kind == "f" else values.size
    return {"shape": list(values.shape), "dtype": str(values.dtype), "not_finite": int(values.size - finite)}


def describe_remote(path: Path, outputs: RemoteOutputs) -> dict[str, Any]:
    """Return the facts of a store on a DVC remote from its zarr.json files, without reading its rows."""
    received_before = outputs.received
    files = outputs.files(path)
    metadata = {file.parent.name: json.loads(outputs.read(file)) for file in sorted(files) if file.name == "zarr.json"}
    root = metadata.pop(path.name, None)
    if root is None:
        raise StoreError(f"{path}: not a Zarr store; name a .zarr folder of dvc.yaml")
    size, read = outputs.size(path), outputs.received - received_before
    return {
        "title": f"on {outputs.name}, {size / 1e6:.1f} MB in {counted(len(files), 'file')} ({read / 1e3:.1f} kB read)",
        "bytes": size,
        "bytes_read": read,
        "arrays": {
            name: {"shape": array["shape"], "dtype": array["data_type"], "settings": array["attributes"]}
            for name, array in metadata.items()
        },
        "provenance": root["attributes"],
    }


def as_text(path: str, facts: dict[str, Any]) -> str:
    """Format the facts of a store as text."""
    lines = [f"{path}: {facts['title']}"]
    for name, array in facts["arrays"].items():
        line = f"  {name:16}{array['dtype']:10}{array['shape']}"
        if "norm_median" in array:
            line += "  norms {norm_min:.3g}, median {norm_median:.3g}, to {norm_max:.3g}".format(**array)
        if array.get("not_finite"):
            line += f"  {array['not_finite']} not finite"
        settings = ", ".join(f"{key} {value}" for key, value in array.get("settings", {}).items())
        lines.append(f"{line}  {settings}".rstrip())
    for key, value in facts["provenance"].items():
        text = value if isinstance(value, str) else json.dumps(value)
        lines.append(f"  {key:16}{text if len(text) <= 100 else text[:97] + '...'}")
    return "\n".join(lines)


def inspect(store: list[Path], *, as_json: bool, remote: bool) -> Iterator[str]:
    """Yield the facts of all stores as text or JSON."""
    outputs = RemoteOutputs() if remote else None
    facts = {str(path): describe_remote(path, outputs) if outputs else describe(path) for path in store}
    yield json.dumps(facts, indent=2) if as_json else "\n\n".join(as_text(*item) for item in facts.items())


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("store", metavar="STORE", type=Path, nargs="+", help="a .zarr folder under cache/")
    parser.add_argument("--json", dest="as_json", action="store_true", help="print JSON, without shortening values")
    parser.add_argument("--remote", action="store_true", help="read from the DVC remote without pulling")
