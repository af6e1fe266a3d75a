"""`referee export`: an adapted classifier as one safetensors file for use without this package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.cli.help_text import command
from pipeline.cli.predict import add_model_choice
from pipeline.errors import InputError, ParamsError
from pipeline.params import load_params

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from pipeline.stages.adapted_model import AdaptedModel
    from pipeline.store.exported_classifier import ExportedClassifier

DESCRIPTION = """\
Write the adapted classifier as one safetensors file that torch alone can use:
the Fourier basis, the weights of the classes seen, the class prompts for the
CLIP branch, and in the header which backbones and which preprocessing it
belongs to, and 20 lines of Python that use it.

No image and no backbone is in it: you embed images with the two models that
the header names (timm, open_clip, or your own), and it classifies the rows.
"""
READS = """\
params.yaml and of cache/: target/PROBLEM.zarr, bases, source,
prompts, and of embeddings which model made them; no image, no weights"""
WRITES = "FILE, whole or not at all; the same model gives the same bytes"
EXAMPLES = """\
referee export --problem mnist-uci --output mnist-uci.safetensors
referee export --problem mnist-uci --after-task 2 --output after-2.safetensors"""


def exported(model: AdaptedModel) -> ExportedClassifier:
    """Return the model as tensors and plain values, or say why its variant cannot be written so."""
    from pipeline.method.prediction import logit_factor
    from pipeline.store.exported_classifier import ExportedClassifier

    options = model.options
    if options.predictor == "nearest_mean" or options.vote_at_test:
        what = "vote_at_test" if options.vote_at_test else "predictor: nearest_mean"
        raise ParamsError(
            f"method: a model with {what} is no single linear classifier and cannot be exported; choose another "
            "variant, or use `referee predict`"
        )
    classifier = model.source.classifier if options.predictor == "source" else model.classifier
    fusion: str = options.fusion(at_test=True)
    fusion = {"clip": "clip", "source": "klda"}.get(options.predictor, fusion)
    prompted = len(model.classes) if options.clip_classes_at_test == "all" else len(model.seen)
    tensors: dict[str, Any] = {
        "omega": joint_frequencies(model),
        "beta": model.basis.beta,
        "W": classifier.W,
        "b": classifier.b,
        "text": model.text[:prompted],
    }
    about = {
        "problem": model.problem,
        "after_task": model.after_task,
        "tasks": model.tasks,
        "seed": model.seed,
        "classes": list(model.seen),
        "clip_in_kernel": options.clip_in_kernel,
        "feature_scale": model.basis.scale,
        "logit_factor": logit_factor(options),
        "clip_scale": options.clip_logit_scale(model.clip_scale),
        "fusion": fusion,
        "vision": backbone(model.vision.provenance),
        "language": backbone(model.language.provenance),
    }
    return ExportedClassifier(tensors, about)


def joint_frequencies(model: AdaptedModel) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the frequencies (d + d', D) of vision and CLIP rows; zero for CLIP where the kernel leaves it out."""
    if model.options.clip_in_kernel:
        return model.basis.joint().omega
    nothing = np.zeros((model.language.width, model.basis.D), dtype=np.float32)
    return np.vstack([model.basis.omega, nothing])


def backbone(provenance: dict[str, Any]) -> dict[str, Any]:
    """Return which model made the embeddings that the classifier was fitted to."""
    return {key: provenance.get(key) for key in ("model", "weights", "preprocessing", "precision")}


def run(args: argparse.Namespace) -> int:
    """Write the file; say what is in it."""
    from pipeline.stages.adapted_model import read_adapted
    from pipeline.store.exported_classifier import write_classifier

    if args.output.suffix != ".safetensors" or args.output.is_dir():
        raise InputError(f"--output {args.output}: give a file's name that ends in .safetensors")
    model = read_adapted(load_params(), args.problem, seed=args.seed, after_task=args.after_task)
    made = exported(model)
    write_classifier(args.output, made)
    size = args.output.stat().st_size
    sys.stdout.write(
        f"{args.output}: {len(model.seen)} classes, D {model.basis.D}, {size:,} bytes; "
        "docs/how-to/prediction.md shows its use\n"
    )
    return 0


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = command(
        commands,
        "export",
        "write an adapted classifier as one safetensors file",
        DESCRIPTION,
        reads=READS,
        writes=WRITES,
        examples=EXAMPLES,
    )
    add_model_choice(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, required=True, help="ends in .safetensors"
    )
    parser.set_defaults(run=run)
