"""`referee predict`: classify new images with an adapted model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.cli.help_text import command, positive
from pipeline.errors import InputError
from pipeline.params import Params, load_params
from pipeline.write_aside import write_aside

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from pipeline.report.prediction_tables import PredictedImage
    from pipeline.stages.adapted_model import AdaptedModel
    from pipeline.stages.new_images import Read

FORMATS = ("table", "csv", "json")
DESCRIPTION = """\
Classify images that the pipeline has never seen: each is cropped, embedded by
both frozen backbones and classified just as the test images are, over all
classes seen so far.

Two branches answer: KLDA, the adapted classifier on the vision model's
features (under `calibrated` with CLIP's image features beside them), and CLIP,
zero-shot by the class names. The confidence is that of their fusion, weighted
by how sure each of them is.
"""
READS = """\
params.yaml, both models' weights, and of cache/: target/PROBLEM.zarr,
bases, source, prompts, and of embeddings which model made them
(`dvc repro` makes them, `dvc pull` fetches them)"""
WRITES = "FILE, with --output; whole or not at all"
EXAMPLES = """\
referee predict --problem mnist-uci photo.png
referee predict --problem mnist-uci --top 5 --output told.json photos/ a.jpg
referee predict --problem mnist-uci --after-task 2 --seed 1 photos/"""


def output_format(asked: str | None, output: Path | None) -> str:
    """Return the format asked for, else the one that the output's name ends in, else a table."""
    if asked:
        return asked
    ending = output.suffix.lower().removeprefix(".") if output else ""
    return ending if ending in FORMATS else "table"


def usable(images: list[Path], params: Params, unreadable: str) -> Read:
    """Read the images; stop with a list of those that cannot be read, or go on without them and say so."""
    from pipeline.stages.new_images import read_images

    read = read_images(images, max_pixels=params.data.max_pixels, workers=params.runtime.workers)
    if read.unreadable and (unreadable == "stop" or not read.pictures):
        remedy = ", or classify the others with --unreadable skip" if read.pictures else ""
        raise InputError("\n".join(read.unreadable.values()) + remedy)
    for why in read.unreadable.values():
        sys.stderr.write(f"referee: skipped: {why}\n")
    return read


def model_facts(model: AdaptedModel, params: Params) -> dict[str, Any]:
    """Return which model answered, as plain values."""
    return {
        "problem": model.problem,
        "after_task": model.after_task,
        "tasks": model.tasks,
        "seed": model.seed,
        "variant": params.method.variant,
        "D": model.basis.D,
        "vision": {"model": params.vision, "weights": model.vision.provenance.get("weights")},
        "language": {"model": params.language, "weights": model.language.provenance.get("weights")},
        "classes": list(model.seen),
    }


def run(args: argparse.Namespace) -> int:
    """Classify the images and tell it in the format asked for."""
    from pipeline.report.prediction_tables import predicted_images
    from pipeline.stages.adapted_model import read_adapted
    from pipeline.stages.new_images import embed_new, find_images

    if args.output and args.output.is_dir():
        raise InputError(f"--output {args.output}: is a folder; name a file in it")
    params = load_params()
    model = read_adapted(params, args.problem, seed=args.seed, after_task=args.after_task)
    # before the backbones: a wrong path should not cost their loading
    read = usable(find_images(args.images), params, args.unreadable)
    views = embed_new(params, params.vision, model.vision, read.pictures, model.views)
    said = embed_new(params, params.language, model.language, read.pictures, ("original",))
    names = [str(picture.path) for picture in read.pictures]
    prediction = model.predict(views, said["original"])
    told = predicted_images(names, prediction, model.seen, args.top)
    text = as_text(told, model, params, read, output_format(args.format, args.output))
    if args.output is None:
        sys.stdout.write(text)
        return 0
    with write_aside(args.output) as aside:
        aside.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{args.output}: {len(told)} images\n")
    return 0


def as_text(
    told: list[PredictedImage], model: AdaptedModel, params: Params, read: Read, form: str
) -> str:
    """Return the predictions in a format."""
    from pipeline.report.prediction_tables import to_csv, to_json, to_text

    if form == "csv":
        return to_csv(told)
    if form == "json":
        unreadable = {str(path): why for path, why in read.unreadable.items()}
        return to_json(told, model_facts(model, params), unreadable)
    which = (
        f"{model.problem}, after task {model.after_task} of {model.tasks}, seed {model.seed}: "
        f"{len(model.seen)} classes"
    )
    headings = (f"KLDA ({params.vision})", f"CLIP ({params.language})")
    return f"{which}\n\n{to_text(told, headings)}"


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = command(
        commands,
        "predict",
        "classify new images with an adapted model",
        DESCRIPTION,
        reads=READS,
        writes=WRITES,
        examples=EXAMPLES,
    )
    parser.add_argument(
        "images", metavar="IMAGE", type=Path, nargs="+", help="image files, or folders of them"
    )
    add_model_choice(parser)
    parser.add_argument(
        "--top", metavar="K", type=positive, default=3, help="classes told per image (default: 3)"
    )
    parser.add_argument(
        "--format", choices=FORMATS, help="default: as --output's name ends, else a table"
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="default: the terminal")
    parser.add_argument(
        "--unreadable",
        choices=("stop", "skip"),
        default="stop",
        help="stop: list every unreadable image and classify none, status 2 (default); "
        "skip: name them on stderr and classify the others",
    )
    parser.set_defaults(run=run)


def add_model_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose a model of the caches."""
    parser.add_argument(
        "--problem", metavar="PROBLEM", required=True, help="a key of `problems` in params.yaml"
    )
    parser.add_argument(
        "--after-task",
        metavar="T",
        type=int,
        help="the model after task T = 1, 2, … (default: the last)",
    )
    parser.add_argument(
        "--seed", type=int, help="of `data.seeds` in params.yaml (default: the first)"
    )
