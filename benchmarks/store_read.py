"""Compare reading a whole view of a store with `np.load` of the same array, and with reading without checksums.

Data is read from the page cache, where checksums cost relatively most: the latency of a disk would hide them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import numpy.typing as npt
import zarr

from benchmarks.measure import Row, at_most, best_in_turns, seconds
from pipeline.method.random_fourier_features import deviations, draw_basis
from pipeline.method.zero_shot import cosines
from pipeline.store import array_layout
from pipeline.store.embedding_store import SHARD_ROWS, EmbeddedView, open_embeddings, write_embeddings

ROWS, WIDTH = {True: 50_000, False: 200_000}, 768  # ROWS by `quick`
BLOCK, PROMPTS = 2048, 31

Matrix = npt.NDArray[np.floating]


def rows(quick: bool) -> list[Row]:
    """Write rows × 768 float16 both ways (307 MB each, a quarter if ``quick``) and read them."""
    count = ROWS[quick]
    x = np.random.default_rng(0).standard_normal((count, WIDTH), np.float32).astype(np.float16)
    with tempfile.TemporaryDirectory() as folder:
        array, store = Path(folder) / "x.npy", Path(folder) / "x.zarr"
        np.save(array, x)
        shards = (x[i : i + SHARD_ROWS] for i in range(0, count, SHARD_ROWS))
        write_embeddings(store, {"original": EmbeddedView(count, WIDTH, "float16", {}, shards)}, {})
        assert open_embeddings(store).read("original").tobytes() == x.tobytes()
        return [whole_read(store, array, count, quick), *checksums(store, quick)]


def whole_read(store: Path, array: Path, count: int, quick: bool) -> Row:
    """Compare a verified read of all rows with `np.load`."""
    numpy_load, store_read = best_in_turns(
        lambda: np.load(array), lambda: open_embeddings(store).read("original"), rounds=5 if quick else 20
    )
    zarr_python = seconds(lambda: zarr.open_array(store / "original", mode="r")[:])
    return at_most(
        f"store: whole read of {count:,} × 768 float16",
        store_read / numpy_load,
        "np.load of the same array",
        1.5,
        f"{1000 * store_read:.0f} ms, checksums verified, against {1000 * numpy_load:.0f} ms (zarr-python: "
        f"{1000 * zarr_python:.0f} ms)",
    )


def checksums(store: Path, quick: bool) -> list[Row]:
    """Measure the cost of verification in three uses of the rows of one shard, in processor time."""
    texts = np.random.default_rng(0).normal(size=(PROMPTS, WIDTH))
    basis = draw_basis(WIDTH, 1000, 1e-4, "gamma", 0)
    uses: list[tuple[str, str, Callable[[Matrix], object]]] = [
        (
            "on the way to a number, the cheapest a stage makes",
            f"{SHARD_ROWS:,} rows read without verification, and their cosines to {PROMPTS} prompts",
            lambda block: cosines(block, texts),
        ),
        (
            "on the way to a statistic",
            f"{SHARD_ROWS:,} rows read without verification and mapped to D = 1000 features",
            lambda block: deviations(basis, block),
        ),
        ("of a read that nothing is done with", "the same read with verification left out", lambda block: block),
    ]
    result = []
    for name, baseline, use in uses:
        plain, verified = best_in_turns(
            partial(read_and_use, store, use, without_verification()),
            partial(read_and_use, store, use, nullcontext()),
            rounds=2 if quick else 12,
            clock=time.process_time,
        )
        detail = f"{1000 * verified:.0f} ms of processor time against {1000 * plain:.0f} ms"
        result.append(at_most(f"store: checksums {name}", verified / plain, baseline, 1.05, detail))
    # no target, because a bare read from the page cache is as fast as a checksum
    result[-1] = replace(result[-1], target="–", met=True)
    return result


def read_and_use(store: Path, use: Callable[[Matrix], object], context: AbstractContextManager[object]) -> None:
    """Read one shard in blocks as the stages do, inside a context, and call ``use`` on each block."""
    embeddings = open_embeddings(store)
    for start in range(0, SHARD_ROWS, BLOCK):
        with context:
            block = embeddings.read("original", start, start + BLOCK)
        use(block)


def without_verification() -> AbstractContextManager[object]:
    """Return a context in which checksums are not verified."""
    return mock.patch.object(array_layout, "crc_matches", return_value=True)
