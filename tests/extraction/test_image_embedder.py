"""Planning and embedding batches of images: no duplicates, rows in order and independent of the batch."""

import hashlib
import time
from pathlib import Path

import numpy as np
import pytest
import timm
import torch

from encoders.small_models import encoder_of
from pipeline.encoders.backbone import Backbone
from pipeline.errors import ModelError
from pipeline.extraction.embedding_settings import EmbeddingSettings
from pipeline.extraction.image_embedder import CPU_ROWS, Batch, ImageEmbedder, plan_batches
from pipeline.extraction.images import Image
from pipeline.method.frequency_views import ViewSettings, frequency_views
from pipeline.method.views import VIEWS


class Encoder:
    """Embeds an image as the means of its quarters, with limited memory; records the rows of each pass."""

    device = torch.device("cpu")

    def __init__(self, max_rows=10_000):
        self.max_rows = max_rows
        self.passes = []

    def embed(self, images):
        if len(images) > self.max_rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.passes.append(len(images))
        return torch.nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


def random_crops(n, side=8):
    return np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8)


SETTINGS = EmbeddingSettings(Backbone(library="timm", name="tiny", origin="", stored_as="float32"), ViewSettings())


def images(numbers):
    return [Image(Path("x.png"), hashlib.sha256(bytes([i])).digest()) for i in numbers]


def batch(numbers, views=("original",)):
    return Batch(tuple(images(numbers)), views)


def embedder(encoder, rows=None):
    result = ImageEmbedder(encoder, SETTINGS)
    if rows is not None:  # the code path of an accelerator, on tensors of the CPU
        result.is_thread_parallel, result.batch_size = False, rows
    return result


def start(image_embedder, crops, numbers, views=("original",)):
    planned = batch(numbers, views)
    return image_embedder.start(planned, image_embedder.prepare(planned, crops[list(numbers)]))


def test_only_missing_views_are_planned_and_each_content_once():
    first, second, third, fourth = images(range(1, 5))
    done = {("original", first.digest), ("rand", first.digest), ("original", second.digest)}
    views = ("original", "rand")
    batches = plan_batches([first, second, third, third, second, fourth], views, 8, lambda *key: key in done)
    assert batches == [Batch((second,), ("rand",)), Batch((third, fourth), views)]


class Recorder(ImageEmbedder):
    """Embeds numbers instead of batches and records the order of events."""

    def __init__(self, *, on_cpu):
        super().__init__(Encoder(), SETTINGS)
        self.is_thread_parallel, self.events = on_cpu, []

    def load(self, number):
        if number == 10:
            raise ValueError("unreadable")
        time.sleep(0.02 if number % 3 == 0 else 0)  # some finish after their successors
        return -number

    def start(self, number, loaded):
        self.events.append(("start", number))
        return lambda: self.events.append(("wait", number)) or {"original": loaded}


@pytest.mark.parametrize("on_cpu", [True, False])
def test_batches_are_yielded_in_order_up_to_an_unreadable_one(on_cpu):
    recorder, done = Recorder(on_cpu=on_cpu), []
    with pytest.raises(ValueError, match="unreadable"):
        done.extend(recorder.embed(range(12), workers=3))
    # extend() keeps the items before the error
    assert done == [(number, {"original": -number}) for number in range(10)]


def test_an_accelerator_gets_its_next_batch_before_the_rows_of_the_last_are_awaited():
    recorder = Recorder(on_cpu=False)
    assert len(list(recorder.embed(range(3), workers=2))) == 3
    assert recorder.events == [*(("start", 0), ("start", 1), ("wait", 0)), *(("start", 2), ("wait", 1), ("wait", 2))]


def test_every_view_is_embedded():
    crops = random_crops(5)
    rows = start(embedder(Encoder()), crops, range(5), VIEWS)()
    whole = torch.from_numpy(crops).permute(0, 3, 1, 2).float() / 255
    for view, pixels in frequency_views(whole, VIEWS, ViewSettings(), batch(range(5)).digests).items():
        expected = torch.nn.functional.adaptive_avg_pool2d(pixels, 2).flatten(1).numpy()
        assert np.array_equal(rows[view], expected)
        assert rows[view].dtype == np.float32


def test_on_the_cpu_every_pass_has_the_same_number_of_rows():
    encoder, n = Encoder(), CPU_ROWS + 3
    assert start(embedder(encoder), random_crops(n), range(n))()["original"].shape == (n, 12)
    assert encoder.passes == [CPU_ROWS, CPU_ROWS]


def test_an_image_has_the_same_row_in_a_full_and_in_a_padded_pass():
    torch.manual_seed(0)
    encoder = encoder_of(timm.create_model("resnet10t", num_classes=0))  # convolutions depend on the layout
    crops = random_crops(16, 32)
    full, padded = (start(embedder(encoder), crops, range(n), VIEWS)() for n in (16, 5))
    assert all(np.array_equal(padded[view], full[view][:5]) for view in full)


def test_the_batch_size_is_halved_for_good_when_memory_runs_out():
    encoder, crops = Encoder(max_rows=5), random_crops(16)
    halving = embedder(encoder, rows=16)
    rows = start(halving, crops, range(16))()["original"]
    assert np.array_equal(rows, start(embedder(Encoder()), crops, range(16))()["original"])
    assert halving.batch_size == 4
    start(halving, crops, range(16))
    assert set(encoder.passes) == {4}
    with pytest.raises(ModelError, match=r"does not hold one image.*runtime\.device: cpu"):
        start(embedder(Encoder(max_rows=0), rows=4), crops, range(4))


def test_several_batches_may_be_started_before_any_is_awaited():
    crops, image_embedder = random_crops(12), embedder(Encoder(), rows=4)
    parts = [range(4), range(4, 8), range(8, 12)]
    pending = [start(image_embedder, crops, part, VIEWS) for part in parts]
    whole = start(image_embedder, crops, range(12), VIEWS)()
    for part, wait in reversed(list(zip(parts, pending, strict=True))):
        for view, rows in wait().items():
            assert np.array_equal(rows, whole[view][list(part)])
