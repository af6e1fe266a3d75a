"""Write an adapted classifier as one safetensors file.

Using the file requires torch, but not this package. It classifies embeddings:
embed your images with the two backbones named in its header. The file contains
the Fourier basis, the classifier of all classes so far, their CLIP text
embeddings and, if the model rejects images, the parameters of the rejection.
The header also contains the preprocessing and 20 lines of Python that use the
file. Images and backbones are not included.

reads:  params.yaml, suite.yaml, and in cache/: target/PROBLEM.zarr, bases,
        source, prompts, embeddings; no images, no weights
writes: FILE, atomically; the same model gives the same bytes
examples:
  referee export --problem mnist-uci --output mnist-uci.safetensors
  referee export --problem mnist-uci --after-task 2 -o after-2.safetensors
  referee export --stream camera --output camera.safetensors
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.cli.predict import add_model_choice, open_model
from pipeline.errors import InputError, ParamsError, counted

if TYPE_CHECKING:
    from pipeline.problem.adapted_model import AdaptedModel


def tensors_and_header(model: AdaptedModel) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an adapted model as tensors and plain values; raise ParamsError if it is not a linear classifier."""
    from pipeline.method.prediction import logit_factor
    from pipeline.store.embedding_store import BACKBONE

    options, target = model.options, model.problem.target
    if options.predictor == "nearest_mean":
        raise ParamsError(
            "params.yaml: method: predictor: nearest_mean is not a linear classifier and cannot be exported; "
            "choose another variant, or use `referee predict`"
        )
    classifier = model.source.classifier if options.predictor == "source" else model.classifier
    fusion: str = options.fusion(at_test=True)
    fusion = {"clip": "clip", "source": "klda"}.get(options.predictor, fusion)
    prompted = len(model.classes) if options.clip_classes_at_test == "all" else len(model.classes_seen)
    if options.clip_in_kernel:
        omega = model.basis.joint().omega
    else:  # ignore CLIP's embeddings
        omega = np.vstack([model.basis.omega, np.zeros((target.clip.width, model.basis.D))])
    tensors: dict[str, Any] = {
        "omega": omega.astype(np.float32),
        "beta": model.basis.beta,
        "W": classifier.W,
        "b": classifier.b,
        "text": target.prompts.text[:prompted],
    }
    about = {
        "problem": model.problem.name,
        "after_task": model.after_task,
        "tasks": model.tasks,
        "seed": model.seed,
        "classes": list(model.classes_seen),
        "views": list(model.views),
        "clip_in_kernel": options.clip_in_kernel,
        "feature_scale": model.basis.scale,
        "logit_factor": logit_factor(options),
        "clip_scale": options.clip_logit_scale(model.clip_scale),
        "fusion": fusion,
        "vision": {key: target.vision.provenance.get(key) for key in BACKBONE},
        "language": {key: target.clip.provenance.get(key) for key in BACKBONE},
    }
    if (rejector := model.rejector) is not None:
        tensors |= {
            "centre": rejector.centre,
            "directions": rejector.directions,
            "similarity_mean": rejector.mean,
            "similarity_sd": rejector.sd,
            "all_text": target.prompts.text[: len(rejector.directions)],
        }
        about["threshold"] = rejector.threshold
    return tensors, about


def export(*, output: Path, **choice: Any) -> Iterator[str]:
    """Write the model chosen by the options of `add_model_choice` to a file."""
    from pipeline.store.exported_classifier import write_classifier

    if output.suffix != ".safetensors" or output.is_dir():
        raise InputError(f"--output {output}: name a file that ends in .safetensors")
    model = open_model(**choice)
    write_classifier(output, *tensors_and_header(model))
    yield (
        f"{output}: {counted(len(model.classes_seen), 'class')}, D {model.basis.D}, {output.stat().st_size:,} bytes; "
        "docs/how-to/prediction.md shows how to use it"
    )


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add_model_choice(parser)
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="a .safetensors file")
