"""Train the two small models that ship with the repository, on rendered glyphs only.

    python -m pretraining.train_digits_models vit
    python -m pretraining.train_digits_models clip

Run it from the root of the repository, in its environment. The timm vision transformer learns the class of a glyph, the
open_clip model its caption. Each run uses one thread, so that both can run at the same time on two cores.
"""

import argparse
import math
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import avg_pool2d, cross_entropy, log_softmax, one_hot

from pipeline.encoders.torchvision_ops import ensure_torchvision_ops

ensure_torchvision_ops()  # before timm and open_clip are imported

from pretraining.captions import CHARACTERS, CLASS_COUNT, captions_of, random_captions  # noqa: E402
from pretraining.evaluation import Domain, evaluate_clip, evaluate_vit, load_domain  # noqa: E402
from pretraining.fonts import pretraining_fonts  # noqa: E402
from pretraining.glyph_bank import build_bank  # noqa: E402
from pretraining.glyph_batches import Batch, GlyphBatches  # noqa: E402
from pretraining.models import (  # noqa: E402
    CLIP_MEAN_STD,
    FILES,
    VIT_MEAN_STD,
    Average,
    as_input,
    create_clip,
    create_vit,
    save_weights,
    shipped_clip,
    shipped_vit,
    tokenize,
)

MAX_LOGIT_SCALE = math.log(100)
PEAK_RATE = {"vit": 1e-3, "clip": 1.5e-3}
STEPS = {"vit": 2402, "clip": 1667}  # of the shipped weights: an hour on shared cores


def vit_loss(vit: nn.Module, batch: Batch, _generator: torch.Generator) -> torch.Tensor:
    """Return the cross-entropy over the classes with label smoothing."""
    x = as_input(avg_pool2d(batch.images, 2), VIT_MEAN_STD)
    return cross_entropy(vit(x), batch.classes, label_smoothing=0.1)


def clip_loss(clip: nn.Module, batch: Batch, generator: torch.Generator) -> torch.Tensor:
    """Return the contrastive loss with one random caption for each of the C classes.

    Several images share a caption. Image to text is therefore a softmax over the classes' captions, and text to image
    distributes its target evenly over the images of the class.
    """
    tokens = tokenize(random_captions(generator))  # (C, length)
    pictures = clip.encode_image(as_input(batch.images, CLIP_MEAN_STD), normalize=True)
    texts = clip.encode_text(tokens, normalize=True)
    logits = clip.logit_scale.exp() * pictures @ texts.T  # (n, C)
    to_text = cross_entropy(logits, batch.classes)
    members = one_hot(batch.classes, len(tokens)).float()  # (n, C)
    present = members.sum(0) > 0
    members, logits = members[:, present], logits[:, present]
    to_image = -(log_softmax(logits, dim=0) * members / members.sum(0)).sum(0).mean()
    return to_text + 0.25 * to_image


def create_optimizer(model: nn.Module) -> torch.optim.AdamW:
    """Create AdamW without weight decay of gains, biases and the logit scale."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98))


class Schedule:
    """Share of the peak learning rate: a linear warm-up, constant, then half a cosine to the end.

    The end need not be known at the start: `finish` begins the descent at once, and the run is then identical to one
    that was started with that number of steps.
    """

    def __init__(self, steps: int, descent: int) -> None:
        self.steps = steps
        self.descent = descent

    def finish(self, step: int) -> None:
        """Begin the descent at this step if it has not begun."""
        self.steps = min(self.steps, step + self.descent)

    def __call__(self, step: int) -> float:
        """Return the share of the peak rate at this step."""
        remaining = min(1.0, (self.steps - step) / self.descent)
        return min((step + 1) / 100, 0.5 * (1 - math.cos(math.pi * remaining)))


class Trainer:
    """One of the two models with its optimiser and averaged weights."""

    def __init__(self, name: str, *, seed: int, decay: float) -> None:
        self.name = name
        torch.manual_seed(seed)  # for the initial weights, because timm and open_clip take no generator
        self.model = create_vit(CLASS_COUNT) if name == "vit" else create_clip()
        if name == "clip":
            self.model.visual.to(memory_format=torch.channels_last)  # a fifth faster on a CPU
        self.loss = vit_loss if name == "vit" else clip_loss
        self.optimizer = create_optimizer(self.model)
        self.average = Average(self.model, decay)
        self.generator = torch.Generator().manual_seed(seed + 1)

    def step(self, batch: Batch, rate: float) -> float:
        """Update the weights once; return the loss before the update."""
        self.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.model, batch, self.generator)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        if self.name == "clip":
            with torch.no_grad():
                self.model.logit_scale.clamp_(max=MAX_LOGIT_SCALE)
        self.average.update(self.model)
        return loss.item()

    def save(self, folder: Path) -> None:
        """Write the averaged weights in the shipped form."""
        state = self.average.state
        if self.name == "vit":
            state = shipped_vit(state)
        else:
            captions = [caption for index in range(CLASS_COUNT) for caption in captions_of(index)]
            state = shipped_clip(state, tokenize(captions).unique())
        save_weights(state, folder / FILES[self.name])

    def report(self, domains: list[Domain]) -> None:
        """Print the accuracy of the averaged weights."""
        model = create_vit(CLASS_COUNT) if self.name == "vit" else create_clip()
        model.load_state_dict(self.average.state)
        evaluate = evaluate_vit if self.name == "vit" else evaluate_clip
        for domain in domains:
            print(f"  {domain.name:6s} {evaluate(model, domain)}", flush=True)


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=["vit", "clip"])
    parser.add_argument("--out", type=Path, default=Path("weights/digits"))
    parser.add_argument("--steps", type=int, help=f"default: {STEPS}")
    parser.add_argument("--descent", type=int, default=1000, help="number of steps of decreasing rate at the end")
    parser.add_argument("--warps-after", type=int, default=500, help="first step with full warps")
    parser.add_argument("--finish-file", type=Path, help="begin the descent when this file exists")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--average", type=float, default=0.995, help="decay of the moving average")
    parser.add_argument("--digit-share", type=float, default=0.7, help="share of digits among the glyphs of a batch")
    parser.add_argument("--save-every", type=int, default=500, help="steps between checkpoints")
    parser.add_argument("--matplotlib-fonts-only", action="store_true")
    parser.add_argument(
        "--evaluate-on-handwriting",
        action="store_true",
        help="also print the accuracy on real MNIST and UCI images (never used for training)",
    )
    return parser.parse_args()


def train(options: argparse.Namespace, batches: GlyphBatches, domains: list[Domain]) -> Trainer:
    """Train a model, print progress and write checkpoints."""
    trainer = Trainer(options.model, seed=options.seed, decay=options.average)
    schedule = Schedule(options.steps or STEPS[options.model], options.descent)
    start, step = time.monotonic(), 0
    while step < schedule.steps:
        if options.finish_file is not None and options.finish_file.exists():
            options.finish_file.unlink()
            schedule.finish(step)
            print(f"finishing; repeat this run with --steps {schedule.steps}", flush=True)
        batch = batches.draw(options.batch, min(1.0, step / options.warps_after))
        loss = trainer.step(batch, PEAK_RATE[options.model] * schedule(step))
        step += 1
        if step % 50 == 0:
            minutes = (time.monotonic() - start) / 60
            print(f"{step:5d} {minutes:5.1f} min  loss {loss:.3f}", flush=True)
        if step % options.save_every == 0 or step == schedule.steps:
            trainer.save(options.out)
            trainer.report(domains)
    return trainer


def main() -> None:
    """Train a model, print its accuracies and write its weights."""
    options = parse_arguments()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    fonts = pretraining_fonts(matplotlib_only=options.matplotlib_fonts_only)
    bank = build_bank(fonts, CHARACTERS)
    print(f"{len(bank.classes)} glyphs of {len(fonts)} fonts, {CLASS_COUNT} classes", flush=True)
    # Different glyphs for the two models, so that they do not make the same mistakes.
    glyph_seed = 2 * options.seed + (options.model == "clip")
    batches = GlyphBatches(bank, seed=glyph_seed, digit_share=options.digit_share)
    names = ["print", "mnist", "uci"] if options.evaluate_on_handwriting else ["print"]
    trainer = train(options, batches, [load_domain(name, per_class=60) for name in names])
    print("all images:", flush=True)
    trainer.report([load_domain(name) for name in names])


if __name__ == "__main__":
    main()
