"""A group that zarr-python writes, sealed; imported by those who write embeddings alone (a quarter of a second)."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from weakref import WeakSet

import zarr
from zarr.core.sync import sync

from pipeline.store.seal import ROOT, seal
from pipeline.write_aside import write_aside

_WAITING: WeakSet[asyncio.Task[Any]] = WeakSet()  # touched by the loop's own thread only


@contextmanager
def sealed_group(path: Path, attributes: Mapping[str, Any]) -> Iterator[zarr.Group]:
    """Yield a group beside ``path``; seal and rename it when all went well."""
    with write_aside(path) as aside:
        try:
            yield zarr.create_group(aside, zarr_format=3, attributes=dict(attributes))
        finally:
            # Zarr writes the chunks of an array at once and raises at the first that fails; the
            # others go on in its threads, and each would make the folder again that is about to be
            # removed.
            sync(_wait_for_the_rest())
        seal(aside, json.loads((aside / ROOT).read_text(encoding="utf-8")))


async def _wait_for_the_rest() -> None:
    """Return when Zarr's loop has nothing left to do but to wait, here or for another thread."""
    _WAITING.add(cast("asyncio.Task[Any]", asyncio.current_task()))
    while rest := asyncio.all_tasks().difference(_WAITING):
        await asyncio.wait(rest)
