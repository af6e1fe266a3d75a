"""A group whose writing fails leaves nothing behind, though Zarr writes its chunks in several threads."""

import time

import numpy as np
import pytest
import zarr.core.sync as zarr_sync
import zarr.storage._local as local

from pipeline.store.zarr_group import sealed_group

FULL = OSError(28, "No space left on device")


def write(path):
    with sealed_group(path, {}) as group:
        group.create_array("x", shape=(6, 4), dtype="float64", chunks=(1, 4))[...] = np.ones((6, 4))


@pytest.fixture
def put(monkeypatch):
    """Return a function that replaces how Zarr writes a chunk, given the number of the chunk."""
    original, chunks = local._put, []

    def replace(before_chunk):
        def put(path, value, exclusive=False):
            if path.name != "zarr.json":
                chunks.append(path)
                before_chunk(len(chunks))
            return original(path, value, exclusive)

        monkeypatch.setattr(local, "_put", put)
        return chunks

    return replace


def test_chunks_still_being_written_do_not_bring_the_folder_back(tmp_path, put):
    """The first chunk fails at once; the others, slower, would make the removed folder again."""

    def slow_or_full(number):
        if number == 1:
            raise FULL
        time.sleep(0.2)

    chunks = put(slow_or_full)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "a.zarr")
    assert not list(tmp_path.iterdir())
    time.sleep(0.5)
    assert len(chunks) > 1, "Zarr wrote one chunk after the other: nothing was tested"
    assert not list(tmp_path.iterdir())


def test_an_interrupt_leaves_nothing_either(tmp_path, put, monkeypatch):
    """Control-C arrives in our thread while Zarr's threads write."""
    put(lambda _: time.sleep(0.2))
    wait, interrupts = zarr_sync.wait, []

    def interrupted_once(futures, **options):
        time.sleep(0.05)  # metadata is written by then, chunks are not
        if not interrupts and not all(future.done() for future in futures):
            interrupts.append(futures)
            raise KeyboardInterrupt
        return wait(futures, **options)

    monkeypatch.setattr(zarr_sync, "wait", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "a.zarr")
    time.sleep(0.5)
    assert interrupts
    assert not list(tmp_path.iterdir())
