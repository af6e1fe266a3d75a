from pathlib import Path

import pytest

from pipeline.extraction.embed_on_cluster import MAX_BLOCK_IMAGES, BlockSizes
from pipeline.extraction.image_embedder import Batch
from pipeline.extraction.images import Image


def batches(count, views=("original",)):
    """Return ``count`` batches of sixteen images."""
    numbers = range(16 * count)
    images = [Image(Path(f"{i}.jpg"), i.to_bytes(32, "big")) for i in numbers]
    return [Batch(tuple(images[i : i + 16]), views) for i in numbers[::16]]


def test_blocks_have_every_image_once_with_its_views():
    planned = [*batches(5), *batches(4, ("original", "zeros"))]
    sizes = BlockSizes(planned, lambda: 1)
    sizes.learn(1, 0.001)
    blocks, expected = ([(image, b.views) for b in group for image in b.images] for group in (sizes, planned))
    assert blocks == expected


def test_the_first_block_is_one_batch_and_later_ones_take_the_requested_time():
    sizes = BlockSizes(batches(1000), lambda: 1, seconds=2.0)
    blocks = iter(sizes)
    assert len(next(blocks).images) == 16
    sizes.learn(16, 16 * 0.01)  # 100 images per second
    assert len(next(blocks).images) == pytest.approx(200, abs=16)
    for _ in range(30):
        sizes.learn(100, 100 * 0.1)  # 10 per second from here on
    assert len(next(blocks).images) == pytest.approx(20, abs=16)


@pytest.mark.parametrize(("threads", "count"), [(1, 200), (4, 200), (1, 3000)])
def test_a_block_is_at_most_half_of_the_remaining_work_of_a_thread_and_at_most_the_limit(threads, count):
    sizes = BlockSizes(batches(count), lambda: threads)
    sizes.learn(10**6, 0.001)  # so fast that all images would fit into one block
    remaining = 16 * count
    for block in sizes:
        assert len(block.images) <= min(MAX_BLOCK_IMAGES, remaining / (2 * threads) + 16)
        remaining -= len(block.images)
    assert remaining == 0
