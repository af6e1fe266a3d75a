"""Draw the views of an image.

Adapting also uses two altered copies of each image: `zeros`, without its fine
detail, and `rand`, with noise in place of it. The picture shows the original
and both, cropped as a model sees them, and what was removed.

reads:  params.yaml (`views`), suite.yaml (`models`), the image, the weights
writes: a picture, results/views.png or --output
examples:
  referee show-views photo.jpg
  referee show-views photo.jpg --model clip --output views.pdf
"""

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

from pipeline.config.params import load_params, named
from pipeline.errors import InputError

SUFFIXES = (".png", ".pdf", ".svg", ".jpg")


def show_views(image: Path, *, output: Path, model: str | None) -> Iterator[str]:
    """Draw the views of one image."""
    from pipeline.encoders.backbone import build_image_encoder
    from pipeline.encoders.image_decoding import decode, image_facts
    from pipeline.method.frequency_views import ViewSettings
    from pipeline.report.view_picture import draw_views

    params = load_params()
    described = named("models", params.models, model or params.models_of(params.vision)[0])
    if output.suffix.lower() not in SUFFIXES:
        raise InputError(f"--output {output}: name a file that ends in {', '.join(SUFFIXES)}")
    if image.is_dir():
        raise InputError(f"{image}: is a folder; name one image in it")
    if not image.is_file():
        raise InputError(f"{image}: no such image; check its path, which starts at {Path.cwd()}")
    digest = image_facts(image, max_pixels=params.data.max_pixels).sha256  # refused before the model is loaded
    preprocessing = build_image_encoder(described, "cpu").preprocessing
    pixels = decode(image, expected_sha256=digest, upright=preprocessing.upright)
    settings = ViewSettings(**params.views.model_dump())
    figure = draw_views(preprocessing.crop(pixels), bytes.fromhex(digest), settings)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=150)
    yield str(output)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("image", metavar="IMAGE", type=Path)
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, default=Path("results/views.png"), help="default: %(default)s"
    )
    parser.add_argument("--model", help="whose crop to show (default: the vision model's)")
