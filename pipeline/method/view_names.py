"""The names of the views of an image, in the order in which they are extracted; `frequency_views` makes them."""

from typing import Literal, get_args

View = Literal["original", "zeros", "rand"]
VIEWS: tuple[View, ...] = get_args(View)
