"""Planning and streaming: what is done is not done again, each content once, results in order."""

import time
from pathlib import Path

import numpy as np
import pytest

from pipeline.extraction.batches import plan_batches, stream
from pipeline.extraction.images import Image


def images(*numbers):
    return [Image(Path(f"{i}.png"), bytes([n])) for i, n in enumerate(numbers)]


def test_only_missing_views_are_planned_and_each_content_once():
    done = {("original", b"\x01"), ("rand", b"\x01"), ("original", b"\x02")}
    batches = plan_batches(images(1, 2, 3, 3, 2, 4), ("original", "rand"), 8, lambda v, d: (v, d) in done)
    planned = {batch.views: [digest[0] for digest in batch.digests] for batch in batches}
    assert planned == {("rand",): [2], ("original", "rand"): [3, 4]}


@pytest.mark.parametrize("side_by_side", [True, False])
def test_every_batch_comes_in_order_with_its_own_rows(side_by_side):
    batches = plan_batches(images(*range(50)), ("original",), 4)

    def load(batch):
        first = batch.images[0].digest[0]
        time.sleep(0.02 if first % 12 == 0 else 0)  # some end after their successors
        return np.array([[image.digest[0]] for image in batch.images])

    results = stream(
        batches,
        load=load,
        start=lambda batch, loaded: lambda: {"original": loaded.astype(np.float32)},
        side_by_side=side_by_side,
        workers=3,
    )
    rows = [
        (digest[0], row[0])
        for batch, embedded in results
        for digest, row in zip(batch.digests, embedded["original"], strict=True)
    ]
    assert rows == [(i, i) for i in range(50)]


def test_an_accelerator_gets_its_next_batch_before_the_last_one_is_waited_for():
    events = []

    def start(item, _loaded):
        events.append(("start", item))
        return lambda: events.append(("wait", item)) or {}

    results = stream([0, 4, 8], load=int, start=start, side_by_side=False, workers=2)
    assert [item for item, _ in results] == [0, 4, 8]
    assert events == [*(("start", 0), ("start", 4), ("wait", 0)), *(("start", 8), ("wait", 4), ("wait", 8))]


@pytest.mark.parametrize("side_by_side", [True, False])
def test_an_unreadable_image_stops_the_stream_after_the_batches_before_it(side_by_side):
    def load(item):
        if item == 2:
            raise ValueError("unreadable")
        return item

    results = stream(range(5), load=load, start=lambda *_: dict, side_by_side=side_by_side, workers=2)
    assert [next(results)[0] for _ in range(2)] == [0, 1]
    with pytest.raises(ValueError, match="unreadable"):
        next(results)
