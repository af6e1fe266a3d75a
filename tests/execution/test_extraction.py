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
        crop=lambda picture: np.full((2, 2, 3), picture.digest[0], np.uint8),
        embed=lambda crops, batch: {"original": crops[:, 0, 0, :1].astype(np.float32)},
        record=lambda batch, rows: recorded.extend(
            zip([d[0] for d in batch.digests], rows["original"][:, 0], strict=True)
        ),
        workers=3,
        embed_in_workers=embed_in_workers,
    )
    assert recorded == [(i, i) for i in range(50)]


def test_workers():
    assert worker_count(3) == 3
    assert worker_count(0) >= 1
