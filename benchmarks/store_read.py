"""Reading a whole view of a store against `np.load` of the same array, and against itself without checksums.

From the page cache, which is the hardest case for the checksums: a disk hides them.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import numpy.typing as npt
import zarr

from benchmarks.row import Row, at_most
from benchmarks.timing import best_in_turns, seconds
from pipeline.method.random_fourier_features import deviation, draw_basis
from pipeline.store import shard_reader
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
        unverified, verified = best_in_turns(
            lambda: read_unverified(store),
            lambda: open_embeddings(store).read("original"),
            rounds=8 if quick else 20,
            clock=time.process_time,
        )
        used = best_in_turns(
            lambda: read_and_map(store, verified=False),
            lambda: read_and_map(store, verified=True),
            rounds=3 if quick else 6,
            clock=time.process_time,
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
        ),
        at_most(
            "store: the same read with every checksum verified",
            verified / unverified,
            "the same read with verification left out",
            1.05,
            f"from memory, nothing done with the rows: {1000 * verified:.0f} ms of processor time "
            f"against {1000 * unverified:.0f} ms",
        ),
        at_most(
            "store: checksums on the way to a statistic",
            used[1] / used[0],
            "32,768 rows read without verification and mapped to D = 1000 features",
            1.05,
            f"{1000 * used[1]:.0f} ms of processor time against {1000 * used[0]:.0f} ms",
        ),
    ]


def read_and_map(store: Path, *, verified: bool) -> object:
    """Read one shard and map it to Fourier features, as every statistics stage does."""
    basis = draw_basis(WIDTH, 1000, 1e-4, "gamma", 0)
    opened = open_embeddings(store)
    total = 0.0
    for start in range(0, SHARD_ROWS, 2048):
        with nullcontext() if verified else believing():
            block = opened.read("original", start, start + 2048)
        total += float(deviation(basis, block)[0, 0])
    return total


def believing() -> AbstractContextManager[object]:
    """Leave verification out."""
    return mock.patch.object(shard_reader, "_is_whole", return_value=True)


def read_unverified(store: Path) -> npt.NDArray[np.floating]:
    """Read the view and believe every byte."""
    with believing():
        return open_embeddings(store).read("original")
