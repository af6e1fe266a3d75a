"""Print the accuracies in the model card, computed from the shipped weights.

    python -m pretraining.evaluate_digits_models

The nearest-mean accuracies are means over five random 90/10 splits.
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
    """Load both models strictly, embed the three domains and print the accuracies of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, default=Path("weights/digits"))
    folder = parser.parse_args().weights
    vit, clip = create_vit(0).eval(), create_clip().eval()
    vit.load_state_dict(load_file(folder / FILES["vit"]))
    clip.load_state_dict(load_file(folder / FILES["clip"]))
    print(f"logit scale {clip.logit_scale.exp().item():.1f}")
    for name in ("print", "mnist", "uci"):
        domain = load_domain(name)
        vit_rows = normalize(vit_features(vit, domain.images), dim=1)
        clip_rows = clip_embeddings(clip, domain.images)
        scores = zero_shot_scores(clip, clip_rows)
        correct = scores.argmax(1) == domain.labels
        print(
            f"{name:6s} zero-shot {_percentage(correct)}, "
            f"mean confidence {100 * scores.max(1).values.mean():.1f}, nearest mean "
            f"vit {_mean_over_splits(vit_rows, domain.labels)} clip {_mean_over_splits(clip_rows, domain.labels)}"
        )
        digits = " ".join(_percentage(correct[domain.labels == digit]) for digit in range(10))
        print(f"       zero-shot per digit: {digits}", flush=True)


def _percentage(correct: torch.Tensor) -> str:
    return f"{100 * correct.float().mean():.1f}"


def _mean_over_splits(embeddings: torch.Tensor, labels: torch.Tensor) -> str:
    accuracies = [nearest_mean_accuracy(embeddings, labels, seed) for seed in SPLITS]
    return f"{100 * statistics.mean(accuracies):.1f}"


if __name__ == "__main__":
    main()
