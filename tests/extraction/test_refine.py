"""Refining views by real small models: unrefined views keep their rows, refined ones have a higher loss."""

import hashlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import timm
import torch

from encoders import small_models
from encoders.small_models import encoder_of
from pipeline.encoders.backbone import Backbone
from pipeline.encoders.clip_encoder import ClipEncoder
from pipeline.errors import ModelError, ParamsError
from pipeline.extraction.embedding_settings import EmbeddingSettings
from pipeline.extraction.images import Image
from pipeline.extraction.refine import (
    BatchToRefine,
    TaskToRefine,
    TokenModel,
    ViewRefiner,
    attend,
    mutual_attention,
    refined_problem,
)
from pipeline.method.adversarial_refinement import Ascent, SourceBranch
from pipeline.method.frequency_views import ViewSettings
from pipeline.method.kernel_lda import Classifier
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.variants import MethodOptions
from reference import mutual_attention as oracle

VIEWS = ("zeros", "rand")


def clip_encoder():
    return ClipEncoder(
        small_models.clip(),
        text_config=small_models.CLIP_CONFIG["text_cfg"],
        description={"library": "open_clip", "name": "tiny-clip"},
        **small_models.ON_CPU,
    )


@pytest.fixture(scope="module")
def vit():
    return encoder_of(small_models.vit())


def random_branch(encoder, C=3):
    rng = np.random.default_rng(0)
    basis = draw_basis(encoder.width, 40, 1.0, "gamma", seed=0)
    classifier = Classifier(5 * rng.normal(size=(40, C)), rng.normal(size=C))
    return SourceBranch(basis, classifier, np.arange(C))


SETTINGS = EmbeddingSettings(Backbone(library="timm", name="tiny", origin="", stored_as="float32"), ViewSettings())


def refine_rows(encoder, n, ascent, *, attention=False, branch=None, rows=None):
    refiner = ViewRefiner(encoder, SETTINGS, ascent, attention=attention)
    if rows:  # the code path of an accelerator, on tensors of the CPU
        refiner.is_thread_parallel, refiner.batch_size = False, rows
    crops = np.random.default_rng(0).integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)
    images = tuple(Image(Path("x.png"), hashlib.sha256(bytes([i])).digest()) for i in range(n))
    batch = BatchToRefine(images, VIEWS, TaskToRefine(np.arange(n), branch, np.arange(n) % 3))
    return refiner.start(batch, refiner.prepare(batch, crops))()


@pytest.mark.parametrize("make", [lambda: encoder_of(small_models.vit()), clip_encoder])
def test_the_differentiable_forward_equals_embed_and_has_gradients(make):
    encoder = make()
    images = small_models.pictures(3).requires_grad_()
    embeddings = encoder.differentiable(images)
    torch.testing.assert_close(embeddings.detach(), encoder.embed(images.detach()))
    (gradient,) = torch.autograd.grad(embeddings.square().sum(), images)
    assert gradient.abs().amax(dim=(1, 2, 3)).min() > 0


def test_refinement_increases_the_loss_of_the_source_model(vit):
    branch, labels = random_branch(vit), torch.arange(5) % 3

    def losses(steps):
        rows = refine_rows(vit, 5, Ascent(steps, 0.002, 0.02), branch=branch)
        return np.array([branch.log_odds(torch.from_numpy(rows[view]), labels) for view in VIEWS])

    before, after = losses(0), losses(4)
    assert (after > before).all()


def test_an_image_has_the_same_row_in_every_batch(vit):
    ascent, branch = Ascent(2, 0.01, 0.03), random_branch(vit)
    many, again, few = (refine_rows(vit, n, ascent, attention=True, branch=branch) for n in (5, 5, 3))
    for view in VIEWS:
        assert np.array_equal(many[view], again[view])
        assert np.array_equal(many[view][:3], few[view])


@pytest.mark.parametrize("pooling", [{}, {"class_token": False, "global_pool": "avg"}])
def test_a_transformer_is_split_into_tokens_and_pooling(pooling):
    encoder = encoder_of(small_models.vit(**pooling))
    token_model, images = TokenModel(encoder), small_models.pictures(3)
    tokens = token_model.tokens(images)
    assert tokens.shape == (3, 64 + (not pooling), 48)
    assert torch.equal(token_model.pool(tokens), encoder.embed(images))
    rows = refine_rows(encoder, 3, Ascent(0, 0.1, 0.1), attention=True)
    plain = refine_rows(encoder, 3, Ascent(0, 0.1, 0.1))
    assert all(rows[view].shape == (3, 48) for view in VIEWS)
    assert not any(np.allclose(rows[view], plain[view]) for view in VIEWS)


@pytest.mark.parametrize(
    ("target", "reject"), [({"hidden": True}, "none"), ({"label_space": "open"}, "none"), ({}, "joint")]
)
def test_refinement_beyond_the_closed_set_is_an_error(target, reject):
    target = SimpleNamespace(**{"hidden": False, "label_space": None} | target)
    settings = {"ascent": None, "attention": False, "for_each_seed": None, "scratch": None}
    problem = SimpleNamespace(name="left-right", target=target)
    refining = refined_problem(problem, MethodOptions(reject=reject), [], [], None, **settings)
    with pytest.raises(ParamsError, match=r"refinement\.steps: 0"), refining:
        pass


def test_a_model_without_patch_tokens_is_an_error_with_a_remedy():
    torch.manual_seed(0)
    resnet = encoder_of(timm.create_model("resnet10t", num_classes=0))
    for encoder, name in ((resnet, "tiny"), (clip_encoder(), "tiny-clip")):
        with pytest.raises(ModelError, match=f"model '{name}' has no patch tokens; set it to fal"):
            TokenModel(encoder)


def test_parts_of_a_batch_are_refined_against_their_own_labels(vit):
    """On an accelerator, a batch is split if memory runs out (test_image_embedder.py)."""
    ascent, branch = Ascent(2, 0.01, 0.03), random_branch(vit)
    whole, parts = (refine_rows(vit, 5, ascent, branch=branch, rows=rows) for rows in (5, 2))
    assert all(np.allclose(parts[view], whole[view], atol=1e-4) for view in VIEWS)


def test_attention_agrees_with_the_oracle():
    generator = torch.Generator().manual_seed(0)
    original, view, other = (torch.randn((3, n, 4), generator=generator, dtype=torch.float64) for n in (5, 5, 7))
    for i in range(3):
        np.testing.assert_allclose(attend(original, other)[i], oracle.attend(original[i].tolist(), other[i].tolist()))
        np.testing.assert_allclose(
            mutual_attention(original, view)[i], oracle.mutual(original[i].tolist(), view[i].tolist())
        )
