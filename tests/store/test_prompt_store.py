import numpy as np
import pytest

from pipeline.errors import StoreError
from pipeline.store.prompt_store import Prompts, open_prompts, write_prompts

TEXT = np.eye(3, 5, dtype=np.float32)


def test_round_trip_and_damage(tmp_path):
    path = tmp_path / "p.zarr"
    write_prompts(path, Prompts(TEXT, 12.5, {"classes": ["a", "b", "c"]}))
    read = open_prompts(path)
    assert np.array_equal(read.text, TEXT)
    assert read.logit_scale == 12.5
    assert read.classes == ["a", "b", "c"]
    chunk = path / "text" / "c" / "0" / "0" / "0"
    data = bytearray(chunk.read_bytes())
    data[3] ^= 1
    chunk.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        open_prompts(path)
    chunk.unlink()
    with pytest.raises(StoreError, match="a chunk is missing"):
        open_prompts(path)
    with pytest.raises(StoreError, match="no such store"):
        open_prompts(tmp_path / "none.zarr")
