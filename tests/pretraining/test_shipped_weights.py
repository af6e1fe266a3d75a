"""The shipped weights in weights/digits load strictly by the libraries themselves and classify real digits."""

from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch.nn.functional import normalize

from pipeline.encoders.torchvision_ops import ensure_torchvision_ops

ensure_torchvision_ops()  # before timm and open_clip are imported

import timm  # noqa: E402

from pretraining import models  # noqa: E402
from pretraining.evaluation import (  # noqa: E402
    Domain,
    clip_embeddings,
    load_domain,
    nearest_mean_accuracy,
    vit_features,
    zero_shot_scores,
)

WEIGHTS = Path(__file__).parents[2] / "weights" / "digits"


@pytest.fixture(scope="module")
def mnist() -> Domain:
    return load_domain("mnist", per_class=60)


def test_vit_embeddings_separate_real_digits(mnist: Domain) -> None:
    vit = timm.create_model(
        models.VIT_NAME, num_classes=0, checkpoint_path=str(WEIGHTS / models.FILES["vit"]), **models.VIT_KWARGS
    ).eval()
    embeddings = normalize(vit_features(vit, mnist.images), dim=1)
    assert embeddings.shape == (600, 128)
    accuracies = [nearest_mean_accuracy(embeddings, mnist.labels, seed) for seed in range(5)]
    assert sum(accuracies) / len(accuracies) >= 0.8


def test_clip_classifies_real_digits(mnist: Domain) -> None:
    clip = models.create_clip().eval()
    clip.load_state_dict(load_file(WEIGHTS / models.FILES["clip"]))  # strictly
    scores = zero_shot_scores(clip, clip_embeddings(clip, mnist.images))
    assert (scores.argmax(1) == mnist.labels).float().mean() >= 0.65
    assert 1 < clip.logit_scale.exp() <= 100
