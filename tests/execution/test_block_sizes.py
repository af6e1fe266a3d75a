from pathlib import Path

import pytest

from pipeline.execution.block_sizes import MOST, BlockSizes
from pipeline.execution.extraction import Batch, Picture


def batches(*views_of_each, size=16):
    made, number = [], 0
    for views in views_of_each:
        pictures = [
            Picture(Path(f"{i}.jpg"), i.to_bytes(32, "big")) for i in range(number, number + size)
        ]
        made.append(Batch(tuple(pictures), views))
        number += size
    return made


def test_every_image_once_and_never_two_sets_of_views_in_a_block():
    planned = batches(*[("original",)] * 5, *[("original", "zeros")] * 4)
    sizes = BlockSizes(planned, lambda: 1)
    sizes.took(1, 0.001)
    blocks = list(sizes)
    assert len(blocks) > 2
    assert [p for block in blocks for p in block.pictures] == [
        p for batch in planned for p in batch.pictures
    ]
    for block in blocks:
        wanted = {batch.views for batch in planned if batch.pictures[0] in block.pictures}
        assert wanted == {block.views}


def test_the_first_block_is_one_batch_and_later_ones_take_the_time_asked_for():
    sizes = BlockSizes(batches(*[("original",)] * 1000), lambda: 1, seconds=2.0)
    blocks = iter(sizes)
    assert len(next(blocks).pictures) == 16
    sizes.took(16, 16 * 0.01)  # a hundred images a second
    assert len(next(blocks).pictures) == pytest.approx(200, abs=16)
    for _ in range(30):
        sizes.took(100, 100 * 0.1)  # ten a second from here on
    assert len(next(blocks).pictures) == pytest.approx(20, abs=16)


@pytest.mark.parametrize("threads", [1, 4])
def test_a_block_is_at_most_half_of_what_a_thread_has_still_to_do(threads):
    planned = batches(*[("original",)] * 200)
    sizes = BlockSizes(planned, lambda: threads)
    sizes.took(1000, 0.001)  # so fast that all would fit into one
    left = 200 * 16
    for block in sizes:
        assert len(block.pictures) <= left / (2 * threads) + 16
        left -= len(block.pictures)
    assert left == 0


def test_a_block_has_a_largest_size():
    sizes = BlockSizes(batches(*[("original",)] * 3000), lambda: 1)
    sizes.took(10**6, 0.001)
    assert max(len(block.pictures) for block in sizes) <= MOST + 16


def test_no_batches_no_blocks():
    assert list(BlockSizes([], lambda: 0)) == []
