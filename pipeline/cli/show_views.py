"""`referee show-views IMAGE`: original, zeros, rand and what was removed, as one picture.

The image is cropped as a model of params.yaml would see it; the views are made as its `views` section says.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.help_text import command
from pipeline.errors import InputError, ParamsError, did_you_mean
from pipeline.params import load_params

if TYPE_CHECKING:
    from argparse import _SubParsersAction

DESCRIPTION = """\
Beside the original, the target's statistics see each image twice more: with
its fine detail removed (`zeros`) and with noise in its place (`rand`). This
draws the three, cropped as a model sees them, and what was removed.
"""
PICTURES = (".png", ".pdf", ".svg", ".jpg")


def run(args: argparse.Namespace) -> int:
    """Draw the picture of one image."""
    import torch

    from pipeline.encoders.image_decoding import decode, sha256
    from pipeline.method.frequency_views import ViewSettings
    from pipeline.report.view_picture import draw_views
    from pipeline.stages.backbones import build_image_encoder

    params = load_params()
    model = args.model or params.vision
    if model not in params.models:
        raise ParamsError(f"--model {model!r} is not in models{did_you_mean(model, params.models)}")
    if args.output.suffix.lower() not in PICTURES:
        raise InputError(f"{args.output}: give a picture's name, ending in {', '.join(PICTURES)}")
    # before the model: a wrong path should not cost a model's loading
    decode(args.image, max_pixels=params.data.max_pixels)
    encoder = build_image_encoder(params.models[model], torch.device("cpu"))
    image = decode(
        args.image, max_pixels=params.data.max_pixels, upright=encoder.preprocessing.upright
    )
    crop = encoder.preprocessing.crop(image)
    figure = draw_views(
        crop, bytes.fromhex(sha256(args.image)), ViewSettings(**params.views.model_dump())
    )
    args.output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.output, dpi=150)
    sys.stdout.write(f"{args.output}\n")
    return 0


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = command(
        commands,
        "show-views",
        "draw what the three views do to an image",
        DESCRIPTION,
        reads="params.yaml (`views`, `models`), the image, the model's weights",
        writes="a picture, results/views.png or --output",
        examples="referee show-views photo.jpg\n"
        "referee show-views photo.jpg --model clip --output views.pdf",
    )
    parser.add_argument("image", metavar="IMAGE", type=Path)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        default=Path("results/views.png"),
        help="default: %(default)s",
    )
    parser.add_argument("--model", help="whose crop to show (default: the vision model's)")
    parser.set_defaults(run=run)
