"""Reading a whole view of a store against `np.load` of the same array. From the page cache."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import zarr

from benchmarks.row import Row, at_most
from benchmarks.timing import best_in_turns, seconds
from pipeline.store.embedding_store import SHARD_ROWS, ViewRows, open_embeddings, write_embeddings

ROWS, WIDTH = 200_000, 768


def rows(quick: bool) -> list[Row]:
    """Write 200,000 × 768 float16 both ways (307 MB each) and read them."""
    x = np.random.default_rng(0).standard_normal((ROWS, WIDTH), np.float32).astype(np.float16)
    with tempfile.TemporaryDirectory() as folder:
        array, store = Path(folder) / "x.npy", Path(folder) / "x.zarr"
        np.save(array, x)
        shards = (x[i : i + SHARD_ROWS] for i in range(0, ROWS, SHARD_ROWS))
        write_embeddings(store, {"original": ViewRows(ROWS, WIDTH, "float16", {}, shards)}, {})
        assert open_embeddings(store).read("original").tobytes() == x.tobytes()
        loaded, read = best_in_turns(
            lambda: np.load(array),
            lambda: open_embeddings(store).read("original"),
            rounds=8 if quick else 20,
        )
        general = min(
            seconds(lambda: zarr.open_array(store / "original", mode="r")[:]) for _ in range(2)
        )
    return [
        at_most(
            "store: whole read of 200k × 768 float16",
            read / loaded,
            "np.load of the same array",
            1.5,
            f"{1000 * read:.0f} ms, checksums verified, against {1000 * loaded:.0f} ms (zarr-python: "
            f"{1000 * general:.0f} ms)",
        )
    ]
