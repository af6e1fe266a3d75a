"""The views of an image, in the order in which they are extracted; `frequency_views` makes them."""

from typing import Literal, NamedTuple, get_args

View = Literal["original", "zeros", "rand"]
VIEWS: tuple[View, ...] = get_args(View)


class AboutView(NamedTuple):
    """What is known of a view besides how it is made."""

    settings: tuple[
        str, ...
    ]  # fields of `ViewSettings` that decide it: other fields may change without a new extraction
    caption: str  # below its pictures


ABOUT: dict[str, AboutView] = {
    "original": AboutView((), "the image, cropped"),
    "zeros": AboutView(("wavelet", "level"), "without fine details"),
    "rand": AboutView(("wavelet", "level", "noise", "seed"), "noise in place of fine details"),
}
