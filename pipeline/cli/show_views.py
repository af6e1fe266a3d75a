"""Draw the three views of an image.

Besides the original, the statistics of the target contain two more views of
each image: with its fine detail removed (`zeros`) and with noise in its place
(`rand`). The picture shows the three, cropped as a model sees them, and what
was removed.

reads:  params.yaml (`views`), suite.yaml (`models`), the image, the weights
writes: a picture, results/views.png or --output
examples:
  referee show-views photo.jpg
  referee show-views photo.jpg --model clip --output views.pdf
"""

import argparse
import sys
from pathlib import Path

from pipeline.errors import InputError
from pipeline.params import load_params, named

SUFFIXES = (".png", ".pdf", ".svg", ".jpg")


def run(args: argparse.Namespace) -> int:
    """Draw the views of one image."""
    from pipeline.encoders.backbone import build_image_encoder
    from pipeline.encoders.image_decoding import decode, sha256
    from pipeline.method.frequency_views import ViewSettings
    from pipeline.report.view_picture import draw_views

    params = load_params()
    model = named("models", params.models, args.model or params.models_of(params.vision)[0])
    if args.output.suffix.lower() not in SUFFIXES:
        raise InputError(f"--output {args.output}: name a file that ends in {', '.join(SUFFIXES)}")
    if args.image.is_dir():
        raise InputError(f"{args.image}: is a folder; name one image in it")
    if not args.image.is_file():
        raise InputError(f"{args.image}: no such image; check its path, which starts at {Path.cwd()}")
    decode(args.image, max_pixels=params.data.max_pixels)  # refused before the model is loaded
    encoder = build_image_encoder(model, "cpu")
    upright = encoder.preprocessing.upright
    image = decode(args.image, max_pixels=params.data.max_pixels, upright=upright)
    digest = bytes.fromhex(sha256(args.image))
    settings = ViewSettings(**params.views.model_dump())
    figure = draw_views(encoder.preprocessing.crop(image), digest, settings)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.output, dpi=150)
    sys.stdout.write(f"{args.output}\n")
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("image", metavar="IMAGE", type=Path)
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, default=Path("results/views.png"), help="default: %(default)s"
    )
    parser.add_argument("--model", help="whose crop to show (default: the vision model's)")
