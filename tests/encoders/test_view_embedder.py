"""Views through a model in batches: same rows whatever the batch, and memory that runs out halves it."""

import hashlib

import numpy as np
import pytest
import torch

from pipeline.encoders.preprocessing import Preprocessing
from pipeline.encoders.view_embedder import CPU_ROWS, ViewEmbedder
from pipeline.errors import ModelError
from pipeline.method.frequency_views import ViewSettings, frequency_views

VIEWS = ("original", "zeros", "rand")


class Encoder:
    """Means over quarters of the image; remembers how many rows each pass had, and has limited memory."""

    preprocessing = Preprocessing(8, 8, 1.0, "shortest", "bicubic", (0.5,) * 3, (0.25,) * 3)

    device = torch.device("cpu")

    def __init__(self, most_rows: int = 10_000) -> None:
        self.most_rows = most_rows
        self.passes: list[int] = []

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        if len(images) > self.most_rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.passes.append(len(images))
        return torch.nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


def batch(n: int):
    crops = np.random.default_rng(0).integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    return crops, [hashlib.sha256(bytes([i])).digest() for i in range(n)]


def embedder(encoder: Encoder, device: str = "cpu", rows: int = 64) -> ViewEmbedder:
    embeds = ViewEmbedder(encoder, ViewSettings(), rows=rows)
    if device != "cpu":  # the accelerator's path, on tensors of the CPU: no GPU here
        embeds.is_thread_parallel, embeds.rows = False, rows
    return embeds


def test_every_view_goes_through_the_model():
    crops, digests = batch(5)
    got = embedder(Encoder())(crops, digests, VIEWS, "float32")
    images = torch.from_numpy(crops).permute(0, 3, 1, 2).float() / 255
    for view, pixels in frequency_views(images, VIEWS, ViewSettings(), digests).items():
        expected = torch.nn.functional.adaptive_avg_pool2d(pixels, 2).flatten(1).numpy()
        assert np.array_equal(got[view], expected)
        assert got[view].dtype == np.float32


def test_on_the_cpu_every_pass_has_the_same_rows():
    encoder = Encoder()
    crops, digests = batch(CPU_ROWS + 3)
    rows = embedder(encoder)(crops, digests, ("original",), "float16")["original"]
    assert rows.shape == (CPU_ROWS + 3, 12)
    assert encoder.passes == [CPU_ROWS, CPU_ROWS]


def test_when_memory_runs_out_the_batch_is_halved_and_stays_halved():
    encoder = Encoder(most_rows=5)
    crops, digests = batch(16)
    embeds = embedder(encoder, "accelerator", rows=16)
    rows = embeds(crops, digests, ("original",), "float32")["original"]
    assert np.array_equal(rows, embedder(Encoder())(crops, digests, ("original",), "float32")["original"])
    assert embeds.rows == 4
    embeds(crops, digests, ("original",), "float32")
    assert set(encoder.passes) == {4}


def test_several_batches_may_be_under_way():
    crops, digests = batch(12)
    embeds = embedder(Encoder(), "accelerator", rows=4)
    parts = [slice(0, 4), slice(4, 8), slice(8, 12)]
    waiting = [embeds.start(embeds.prepare(crops[part], digests[part], VIEWS), "float16") for part in parts]
    whole = embeds(crops, digests, VIEWS, "float16")
    for part, finish in reversed(list(zip(parts, waiting, strict=True))):
        for view, rows in finish().items():
            assert rows.dtype == np.float16
            assert np.array_equal(rows, whole[view][part])


def test_noise_is_prepared_only_for_rand():
    crops, digests = batch(2)
    assert embedder(Encoder()).prepare(crops, digests, ("original", "zeros")).words is None
    assert embedder(Encoder()).prepare(crops, digests, VIEWS).words.shape == (2, 3 * 3 * 4 * 4)


def test_when_one_image_does_not_fit_the_remedy_is_told():
    crops, digests = batch(4)
    with pytest.raises(ModelError, match=r"does not hold one image.*runtime\.device: cpu"):
        embedder(Encoder(most_rows=0), "accelerator")(crops, digests, ("original",), "float32")
