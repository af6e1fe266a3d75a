"""Planning and streaming: what is done is not done again, each content once, everything recorded in order."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.execution.extraction import Picture, extract, plan_batches, worker_count


def pictures(*numbers):
    return [Picture(Path(f"{i}.png"), bytes([n])) for i, n in enumerate(numbers)]


def test_only_what_is_lacking_is_planned_each_content_once():
    done = {("original", b"\x01"), ("rand", b"\x01"), ("original", b"\x02")}
    batches = plan_batches(
        pictures(1, 2, 3, 3, 2, 4), ("original", "rand"), lambda v, d: (v, d) in done, size=8
    )
    planned = {batch.views: [digest[0] for digest in batch.digests] for batch in batches}
    assert planned == {("rand",): [2], ("original", "rand"): [3, 4]}


def test_batches_have_the_size_asked_for():
    batches = plan_batches(pictures(*range(10)), ("original",), lambda v, d: False, size=4)
    assert [len(batch.pictures) for batch in batches] == [4, 4, 2]


@pytest.mark.parametrize("embed_in_workers", [True, False])
def test_every_batch_is_recorded_in_order_with_its_own_rows(embed_in_workers):
    batches = plan_batches(pictures(*range(50)), ("original",), lambda v, d: False, size=4)
    recorded = []
    extract(
        batches,
        load=lambda batch: np.array([[picture.digest[0]] for picture in batch.pictures]),
        start=lambda loaded: lambda: {"original": loaded.astype(np.float32)},
        record=lambda batch, rows: recorded.extend(
            zip([d[0] for d in batch.digests], rows["original"][:, 0], strict=True)
        ),
        workers=3,
        embed_in_workers=embed_in_workers,
    )
    assert recorded == [(i, i) for i in range(50)]


def test_an_accelerator_gets_its_next_batch_before_the_last_one_is_waited_for():
    batches = plan_batches(pictures(*range(12)), ("original",), lambda v, d: False, size=4)
    told = []

    def start(loaded):
        told.append(("start", loaded))
        return lambda: told.append(("wait", loaded)) or {}

    extract(
        batches,
        load=lambda batch: batch.digests[0][0],
        start=start,
        record=lambda batch, rows: told.append(("record", batch.digests[0][0])),
        workers=2,
        embed_in_workers=False,
    )
    assert [what for what in told if what[0] != "record"] == [
        *(("start", 0), ("start", 4), ("wait", 0)),
        *(("start", 8), ("wait", 4), ("wait", 8)),
    ]
    assert [n for what, n in told if what == "record"] == [0, 4, 8]


@pytest.mark.parametrize("embed_in_workers", [True, False])
def test_an_image_that_cannot_be_read_stops_it_after_what_came_before(embed_in_workers):
    batches = plan_batches(pictures(*range(12)), ("original",), lambda v, d: False, size=4)
    recorded = []

    def load(batch):
        if batch is batches[2]:
            raise ValueError("unreadable")
        return batch

    with pytest.raises(ValueError, match="unreadable"):
        extract(
            batches,
            load=load,
            start=lambda loaded: dict,
            record=lambda batch, rows: recorded.append(batch),
            workers=2,
            embed_in_workers=embed_in_workers,
        )
    assert recorded == batches[:2]


def test_workers():
    assert worker_count(3) == 3
    assert worker_count(0) >= 1
