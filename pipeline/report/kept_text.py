"""Texts that take long to make, kept from one report to the next as long as what they are made of is the same."""

import hashlib
from collections.abc import Callable

from pipeline import paths
from pipeline.write_aside import write_aside


def kept_text(made_of: object, make: Callable[[], str]) -> str:
    """Return what ``make`` returns, or what it returned when ``made_of`` last had this `repr`."""
    path = paths.KEPT / hashlib.sha256(repr(made_of).encode()).hexdigest()
    if not path.is_file():
        with write_aside(path) as aside:
            aside.write_bytes(make().encode())
    return path.read_bytes().decode()
