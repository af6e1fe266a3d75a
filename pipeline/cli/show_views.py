"""Draw the views of an image.

Adaptation also uses two altered copies of each image: `zeros`, without fine
detail, and `rand`, with noise instead of the detail. The picture shows the
original and both copies, cropped as a model sees them, and the removed detail.

reads:  params.yaml (`views`), suite.yaml (`models`), the image, the weights
writes: FILE
examples:
  referee show-views photo.jpg
  referee show-views photo.jpg --model clip --output views.pdf
"""

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

from pipeline.config.params import get_entry, load_params
from pipeline.errors import InputError

SUFFIXES = (".png", ".pdf", ".svg", ".jpg")


def show_views(image: Path, *, output: Path, model: str | None) -> Iterator[str]:
    """Draw the views of one image."""
    from pipeline.encoders.backbone import build_image_encoder
    from pipeline.encoders.image_decoding import decode, image_facts
    from pipeline.method.frequency_views import ViewSettings
    from pipeline.report.view_picture import draw_views

    params = load_params()
    described = get_entry("models", params.models, model or params.models_of(params.vision)[0])
    if output.suffix.lower() not in SUFFIXES:
        raise InputError(f"--output {output}: name a file that ends in {', '.join(SUFFIXES)}")
    if image.is_dir():
        raise InputError(f"{image}: this is a folder; name one image in it")
    if not image.is_file():
        raise InputError(f"{image}: no such image; check its path, which is relative to {Path.cwd()}")
    # before the model is loaded, so that an unreadable image is reported at once
    digest = image_facts(image, max_pixels=params.data.max_pixels).sha256
    preprocessing = build_image_encoder(described, "cpu").preprocessing
    pixels = decode(image, expected_sha256=digest, upright=preprocessing.upright)
    settings = ViewSettings(**params.views.model_dump())
    figure = draw_views(preprocessing.crop(pixels), bytes.fromhex(digest), settings)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=150)
    yield str(output)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("image", metavar="IMAGE", type=Path, help="an image file")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, default=Path("results/views.png"), help="default: %(default)s"
    )
    parser.add_argument("--model", help="the model that defines the crop (default: the vision model)")
