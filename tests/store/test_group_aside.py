"""A group whose writing fails leaves nothing behind, though Zarr writes its chunks in several threads."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zarr.core.sync as of_zarr
import zarr.storage._local as local

from pipeline.store.array_store import write_arrays


def test_chunks_still_under_way_do_not_bring_the_folder_back(tmp_path, monkeypatch):
    """The first chunk fails at once; the others, slower, would make the removed folder again."""
    put = local._put
    arrived = []

    def slow_or_full(path, value, exclusive=False):
        if path.name != "zarr.json":
            arrived.append(path)
            if len(arrived) == 1:
                raise OSError(28, "No space left on device")
            time.sleep(0.2)
        return put(path, value, exclusive)

    monkeypatch.setattr(local, "_put", slow_or_full)
    with pytest.raises(OSError, match="No space left"):
        write_arrays(tmp_path / "a.zarr", "test/1", {"x": np.ones((6, 4))}, {})
    assert not list(tmp_path.iterdir())
    time.sleep(0.5)
    assert len(arrived) > 1, "Zarr wrote one chunk after the other: nothing was tested"
    assert not list(tmp_path.iterdir())


def test_an_interrupt_leaves_nothing_either(tmp_path, monkeypatch):
    """Control-C arrives in our thread while Zarr's writes."""
    put = local._put

    def slow(path, value, exclusive=False):
        if path.name != "zarr.json":
            time.sleep(0.2)
        return put(path, value, exclusive)

    wait, interrupts = of_zarr.wait, []

    def interrupted_once(futures, **options):
        time.sleep(0.05)  # metadata is written by then, chunks are not
        if not interrupts and not all(future.done() for future in futures):
            interrupts.append(futures)
            raise KeyboardInterrupt
        return wait(futures, **options)

    monkeypatch.setattr(local, "_put", slow)
    monkeypatch.setattr(of_zarr, "wait", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        write_arrays(tmp_path / "a.zarr", "test/1", {"x": np.ones((6, 4))}, {})
    time.sleep(0.5)
    assert interrupts
    assert not list(tmp_path.iterdir())


def test_two_stores_that_fail_at_once_do_not_wait_for_each_other(tmp_path, monkeypatch):
    def full(path, value, exclusive=False):
        time.sleep(0.1)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(local, "_put", full)

    def write(name):
        write_arrays(tmp_path / name, "test/1", {"x": np.ones((6, 4))}, {})

    with ThreadPoolExecutor(4) as pool:
        begun = [pool.submit(write, f"{name}.zarr") for name in "abcd"]
        failed = [future.exception(timeout=30) for future in begun]
    assert [type(error) for error in failed] == [OSError] * 4
    assert not list(tmp_path.iterdir())
