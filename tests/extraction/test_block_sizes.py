from pathlib import Path

import pytest

from pipeline.extraction.embed_on_cluster import MOST, BlockSizes
from pipeline.extraction.image_embedder import Batch
from pipeline.extraction.images import Image


def batches(*views_of_each, size=16):
    planned, number = [], 0
    for views in views_of_each:
        images = [Image(Path(f"{i}.jpg"), i.to_bytes(32, "big")) for i in range(number, number + size)]
        planned.append(Batch(tuple(images), views))
        number += size
    return planned


def test_every_image_once_and_never_two_sets_of_views_in_a_block():
    planned = batches(*[("original",)] * 5, *[("original", "zeros")] * 4)
    sizes = BlockSizes(planned, lambda: 1)
    sizes.learn(1, 0.001)
    blocks = list(sizes)
    assert len(blocks) > 2
    assert [p for block in blocks for p in block.images] == [p for batch in planned for p in batch.images]
    for block in blocks:
        views = {batch.views for batch in planned if batch.images[0] in block.images}
        assert views == {block.views}


def test_the_first_block_is_one_batch_and_later_ones_take_the_time_asked_for():
    sizes = BlockSizes(batches(*[("original",)] * 1000), lambda: 1, seconds=2.0)
    blocks = iter(sizes)
    assert len(next(blocks).images) == 16
    sizes.learn(16, 16 * 0.01)  # a hundred images a second
    assert len(next(blocks).images) == pytest.approx(200, abs=16)
    for _ in range(30):
        sizes.learn(100, 100 * 0.1)  # ten a second from here on
    assert len(next(blocks).images) == pytest.approx(20, abs=16)


@pytest.mark.parametrize("threads", [1, 4])
def test_a_block_is_at_most_half_of_what_a_thread_has_still_to_do(threads):
    planned = batches(*[("original",)] * 200)
    sizes = BlockSizes(planned, lambda: threads)
    sizes.learn(1000, 0.001)  # so fast that all would fit into one
    left = 200 * 16
    for block in sizes:
        assert len(block.images) <= left / (2 * threads) + 16
        left -= len(block.images)
    assert left == 0


def test_a_block_has_a_largest_size():
    sizes = BlockSizes(batches(*[("original",)] * 3000), lambda: 1)
    sizes.learn(10**6, 0.001)
    assert max(len(block.images) for block in sizes) <= MOST + 16
