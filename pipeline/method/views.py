"""Names and captions of the views of an image, in the order of extraction; `frequency_views` computes them."""

from typing import Literal, NamedTuple, get_args

View = Literal["original", "zeros", "rand"]
VIEWS: tuple[View, ...] = get_args(View)


class ViewInfo(NamedTuple):
    """Settings and caption of a view."""

    # the fields of `ViewSettings` that the view depends on; if others change, it need not be extracted again
    settings: tuple[str, ...]
    caption: str  # shown below pictures of the view


VIEW_INFO: dict[str, ViewInfo] = {
    "original": ViewInfo((), "the image, cropped"),
    "zeros": ViewInfo(("wavelet", "level"), "without fine details"),
    "rand": ViewInfo(("wavelet", "level", "noise", "seed"), "noise in place of fine details"),
}
