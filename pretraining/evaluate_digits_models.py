"""Print the figures of the model card from the shipped files.

    python -m pretraining.evaluate_digits_models

The nearest-mean figures are means over five random 90/10 splits.
"""

import argparse
import statistics
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch.nn.functional import normalize

from pipeline.encoders.torchvision_ops import ensure_torchvision_ops

ensure_torchvision_ops()  # before timm and open_clip are imported

from pretraining.evaluation import clip_embeddings, load_domain, nearest_mean_accuracy, vit_features, zero_shot_scores  # noqa: E402
from pretraining.models import FILES, create_clip, create_vit  # noqa: E402

SPLITS = range(5)


def main() -> None:
    """Load both models strictly, embed the three domains, print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, default=Path("weights/digits"))
    folder = parser.parse_args().weights
    vit, clip = create_vit(0).eval(), create_clip().eval()
    vit.load_state_dict(load_file(folder / FILES["vit"]))
    clip.load_state_dict(load_file(folder / FILES["clip"]))
    print(f"logit scale {clip.logit_scale.exp().item():.1f}")
    for name in ("print", "mnist", "uci"):
        domain = load_domain(name)
        by_vit = normalize(vit_features(vit, domain.images), dim=1)
        by_clip = clip_embeddings(clip, domain.images)
        scores = zero_shot_scores(clip, by_clip)
        right = scores.argmax(1) == domain.labels
        print(
            f"{name:6s} zero-shot {_per_cent(right)}, "
            f"mean confidence {100 * scores.max(1).values.mean():.1f}, nearest mean "
            f"vit {_over_splits(by_vit, domain.labels)} clip {_over_splits(by_clip, domain.labels)}"
        )
        by_digit = " ".join(_per_cent(right[domain.labels == digit]) for digit in range(10))
        print(f"       zero-shot of each digit: {by_digit}", flush=True)


def _per_cent(right: torch.Tensor) -> str:
    return f"{100 * right.float().mean():.1f}"


def _over_splits(embeddings: torch.Tensor, labels: torch.Tensor) -> str:
    shares = [nearest_mean_accuracy(embeddings, labels, seed) for seed in SPLITS]
    return f"{100 * statistics.mean(shares):.1f}"


if __name__ == "__main__":
    main()
