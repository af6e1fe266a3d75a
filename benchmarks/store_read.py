"""Reading a whole view of a store against `np.load` of the same array, and against itself without checksums.

From the page cache, which is the hardest case for the checksums: a disk hides them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import numpy.typing as npt
import zarr

from benchmarks.row import Row, at_most
from benchmarks.timing import best_in_turns, seconds
from pipeline.method.prediction import cosines
from pipeline.method.random_fourier_features import deviation, draw_basis
from pipeline.store import shard_reader
from pipeline.store.embedding_store import SHARD_ROWS, ViewRows, open_embeddings, write_embeddings

ROWS, WIDTH = {True: 50_000, False: 200_000}, 768  # rows by `quick`
BLOCK, PROMPTS = 2048, 31

Use = Callable[[npt.NDArray[np.floating]], object]


def rows(quick: bool) -> list[Row]:
    """Write rows × 768 float16 both ways (307 MB each; a quarter if quick) and read them."""
    count = ROWS[quick]
    x = np.random.default_rng(0).standard_normal((count, WIDTH), np.float32).astype(np.float16)
    with tempfile.TemporaryDirectory() as folder:
        array, store = Path(folder) / "x.npy", Path(folder) / "x.zarr"
        np.save(array, x)
        shards = (x[i : i + SHARD_ROWS] for i in range(0, count, SHARD_ROWS))
        write_embeddings(store, {"original": ViewRows(count, WIDTH, "float16", {}, shards)}, {})
        assert open_embeddings(store).read("original").tobytes() == x.tobytes()
        loaded, read = best_in_turns(
            lambda: np.load(array),
            lambda: open_embeddings(store).read("original"),
            rounds=5 if quick else 20,
        )
        unverified, verified = best_in_turns(
            lambda: read_unverified(store),
            lambda: open_embeddings(store).read("original"),
            rounds=5 if quick else 20,
            clock=time.process_time,
        )
        least, mapped = (
            best_in_turns(
                lambda use=use: read_and_use(store, use, verified=False),
                lambda use=use: read_and_use(store, use, verified=True),
                rounds=2 if quick else 12,
                clock=time.process_time,
            )
            for use in (to_prompts(), to_features())
        )
        general = min(
            seconds(lambda: zarr.open_array(store / "original", mode="r")[:]) for _ in range(2)
        )
    return [
        at_most(
            f"store: whole read of {count:,} × 768 float16",
            read / loaded,
            "np.load of the same array",
            1.5,
            f"{1000 * read:.0f} ms, checksums verified, against {1000 * loaded:.0f} ms (zarr-python: "
            f"{1000 * general:.0f} ms)",
        ),
        at_most(
            "store: checksums on the way to a number, the cheapest a stage makes",
            least[1] / least[0],
            f"{SHARD_ROWS:,} rows read without verification, and their cosines to {PROMPTS} prompts",
            1.05,
            f"{1000 * least[1]:.0f} ms of processor time against {1000 * least[0]:.0f} ms",
        ),
        at_most(
            "store: checksums on the way to a statistic",
            mapped[1] / mapped[0],
            f"{SHARD_ROWS:,} rows read without verification and mapped to D = 1000 features",
            1.05,
            f"{1000 * mapped[1]:.0f} ms of processor time against {1000 * mapped[0]:.0f} ms",
        ),
        Row(
            "store: checksums of a read that nothing is done with",
            round(verified / unverified, 3),
            "the same read with verification left out",
            "–",
            True,
            f"from the page cache: {1000 * verified:.0f} ms of processor time against {1000 * unverified:.0f} ms",
        ),
    ]


def read_and_use(store: Path, use: Use, *, verified: bool) -> None:
    """Read one shard in blocks as the stages do, and do something with each block."""
    opened = open_embeddings(store)
    for start in range(0, SHARD_ROWS, BLOCK):
        with nullcontext() if verified else believing():
            block = opened.read("original", start, start + BLOCK)
        use(block)


def to_prompts() -> Use:
    """Return what `pseudo_label` does with CLIP's rows: nothing that a stage does with rows is cheaper."""
    texts = np.random.default_rng(0).normal(size=(PROMPTS, WIDTH))
    return lambda block: cosines(block, texts)


def to_features() -> Use:
    """Return what every statistic begins with."""
    basis = draw_basis(WIDTH, 1000, 1e-4, "gamma", 0)
    return lambda block: deviation(basis, block)


def believing() -> AbstractContextManager[object]:
    """Leave verification out."""
    return mock.patch.object(shard_reader, "_is_whole", return_value=True)


def read_unverified(store: Path) -> npt.NDArray[np.floating]:
    """Read the view and believe every byte."""
    with believing():
        return open_embeddings(store).read("original")
