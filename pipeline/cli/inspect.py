"""`referee inspect STORE`: what a store holds: model, views, rows, width, type, provenance, norms, NaN.

With --remote the store is not pulled: shapes, types and provenance are read straight from the DVC remote, rows are not.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.cli.help_text import command
from pipeline.errors import StoreError, one_line

DESCRIPTION = """\
What is in a Zarr store: for embeddings their views, rows, width, type and
norms, for models and pseudo-labels their arrays; and where it comes from:
backbone, sha256 of its weights, preprocessing, settings.
"""

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from pipeline.cli.remote_files import RemoteFiles
    from pipeline.store.embedding_store import EmbeddingStore


def view_facts(store: EmbeddingStore, view: str) -> dict[str, Any]:
    """Return the type, the norms' quantiles and the number of rows that are not finite, in bounded memory."""
    norms = np.empty(store.rows)
    start = 0
    for block in store.blocks(view):
        norms[start : start + len(block)] = np.linalg.norm(block.astype(np.float64), axis=1)
        start += len(block)
    finite = norms[np.isfinite(norms)]
    low, middle, high = np.quantile(finite, [0, 0.5, 1]) if finite.size else [np.nan] * 3
    return {
        "dtype": str(store.dtype(view)),
        "norm_min": float(low),
        "norm_median": float(middle),
        "norm_max": float(high),
        "not_finite": int(store.rows - finite.size),
        "settings": store.settings(view),
    }


def facts(path: Path) -> dict[str, Any]:
    """Return everything `inspect` tells of a store, as plain values."""
    from pipeline.store.embedding_store import open_embeddings
    from pipeline.store.prompt_store import SCHEMA, open_prompts

    if _schema(path) == SCHEMA:
        prompts = open_prompts(path)
        return {
            "kind": "prompts",
            "classes": len(prompts.classes),
            "width": prompts.text.shape[1],
            "logit_scale": prompts.logit_scale,
            "provenance": prompts.provenance,
        }
    if _schema(path) in _array_schemas():
        return array_facts(path)
    store = open_embeddings(path)
    return {
        "kind": "embeddings",
        "rows": store.rows,
        "width": store.width,
        "bytes": sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
        "views": {view: view_facts(store, view) for view in store.views},
        "provenance": {key: value for key, value in store.provenance.items() if key != "views"},
    }


def array_facts(path: Path) -> dict[str, Any]:
    """Return shape, type and finiteness of every array of a source, target or pseudo-label store."""
    from pipeline.store.array_store import open_arrays

    store = open_arrays(path, str(_schema(path)))
    arrays = {}
    for name in sorted(store.arrays):
        values = store.read(name)
        finite = bool(np.isfinite(values).all()) if values.dtype.kind == "f" else True
        arrays[name] = {"shape": list(values.shape), "dtype": str(values.dtype), "finite": finite}
    provenance = {"schema": _schema(path), **store.attributes}
    return {"kind": "arrays", "arrays": arrays, "provenance": provenance}


def remote_facts(path: Path, files: RemoteFiles) -> dict[str, Any]:
    """Return what a store on a remote says of itself: its zarr.json files are read and none of its rows."""
    import zarr
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import MemoryStore

    before = files.received
    wanted = {
        file: name for file, name in files.listing(path).items() if file.endswith("zarr.json")
    }
    if "zarr.json" not in wanted:
        raise StoreError(f"{path}: not a Zarr store")
    buffer = default_buffer_prototype().buffer
    store = MemoryStore(
        {file: buffer.from_bytes(text) for file, text in files.read_all(wanted, path).items()}
    )
    try:
        group = zarr.open_group(store, mode="r", zarr_format=3)
        arrays = dict(group.arrays())
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: not a readable Zarr store ({one_line(error)})") from None
    size, count = files.size(path)
    return {
        "kind": "remote",
        "remote": files.name,
        "bytes": size,
        "files": count,
        "bytes_read": files.received - before,
        "arrays": {
            name: {
                "shape": list(array.shape),
                "dtype": str(array.dtype),
                "settings": dict(array.attrs),
            }
            for name, array in sorted(arrays.items())
        },
        "provenance": dict(group.attrs),
    }


def _array_schemas() -> set[str]:
    """Return the kinds of store that are plain arrays."""
    from pipeline.stages import adapt
    from pipeline.store import pseudo_label_store, refined_store, source_store

    return {kind.SCHEMA for kind in (adapt, pseudo_label_store, refined_store, source_store)}


def _schema(path: Path) -> str | None:
    try:
        attributes = json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"]
        return str(attributes.get("schema"))
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None  # whatever is wrong, open_embeddings says it better


def as_text(path: Path, told: dict[str, Any]) -> str:
    """Lay the facts out for a person."""
    if told["kind"] == "remote":
        size = f"{told['bytes'] / 1e6:.1f} MB in {told['files']} files"
        read = f"{told['bytes_read'] / 1e3:.1f} kB read, no row"
        lines = [f"{path} on {told['remote']}: {size} ({read})"]
        for name, about in told["arrays"].items():
            made = ", ".join(f"{key} {value}" for key, value in about["settings"].items())
            lines.append(f"  {name:16}{about['dtype']:10}{about['shape']}  {made}".rstrip())
    elif told["kind"] == "arrays":
        lines = [f"{path}: {len(told['arrays'])} arrays"]
        for name, about in told["arrays"].items():
            note = "" if about["finite"] else "  (NaN where there is nothing)"
            lines.append(f"  {name:16}{about['dtype']:10}{about['shape']}{note}")
    elif told["kind"] == "prompts":
        lines = [
            f"{path}: text embeddings of {told['classes']} classes, width {told['width']}",
            f"  logit scale {told['logit_scale']:.2f}",
        ]
    else:
        lines = [
            f"{path}: {told['rows']:,} rows, width {told['width']}, {told['bytes'] / 1e6:.1f} MB",
            f"  {'view':10}{'type':10}{'norm min':>10}{'median':>10}{'max':>10}{'not finite':>12}  made with",
        ]
        for view, about in told["views"].items():
            made = ", ".join(f"{key} {value}" for key, value in about["settings"].items()) or "-"
            lines.append(
                f"  {view:10}{about['dtype']:10}{about['norm_min']:10.3f}{about['norm_median']:10.3f}"
                f"{about['norm_max']:10.3f}{about['not_finite']:12d}  {made}"
            )
    for key, value in told["provenance"].items():
        text = value if isinstance(value, str) else json.dumps(value)
        lines.append(f"  {key:14}{text if len(text) <= 100 else text[:97] + '...'}")
    return "\n".join(lines) + "\n"


def run(args: argparse.Namespace) -> int:
    """Print the facts of each store, for people or as JSON."""
    if args.remote or args.remote_name:
        from pipeline.cli.remote_files import RemoteFiles

        files = RemoteFiles(args.remote_name)
        told = {str(path): remote_facts(path, files) for path in args.store}
    else:
        told = {str(path): facts(path) for path in args.store}
    if args.json:
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(as_text(Path(path), about) for path, about in told.items()))
    return 0


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = command(
        commands,
        "inspect",
        "say what a store under cache/ holds, and what made it",
        DESCRIPTION,
        reads="the stores named",
        writes="nothing",
        examples="referee inspect cache/embeddings/mnist/vit.zarr\n"
        "referee inspect --json cache/target/mnist-uci.zarr",
    )
    parser.add_argument(
        "store", metavar="STORE", type=Path, nargs="+", help="a .zarr folder under cache/"
    )
    parser.add_argument("--json", action="store_true", help="for programs: all of the provenance")
    parser.add_argument(
        "--remote",
        action="store_true",
        help="read it straight from the DVC remote, pulling nothing",
    )
    parser.add_argument("--remote-name", metavar="NAME", help="the same, from another remote")
    parser.set_defaults(run=run)
