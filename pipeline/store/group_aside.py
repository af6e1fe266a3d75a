"""A Zarr group made beside its place: sealed and moved there when whole, gone without a trace when not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from weakref import WeakSet

import zarr
from zarr.core.sync import sync

from pipeline.store.seal import seal
from pipeline.write_aside import write_aside

_WAITING: WeakSet[asyncio.Task[Any]] = WeakSet()  # touched by the loop's own thread only


@contextmanager
def group_aside(path: Path, attributes: Mapping[str, Any]) -> Iterator[tuple[Path, zarr.Group]]:
    """Yield the folder aside and the group in it; seal it and move it to ``path`` when all went well."""
    with write_aside(path) as aside:
        try:
            group = zarr.create_group(aside, zarr_format=3, attributes=dict(attributes))
            yield aside, group
        finally:
            # Zarr writes the chunks of an array at once and raises at the first that fails; the others go on in its
            # threads, and each would make the folder again that is about to be removed.
            sync(_wait_for_the_rest())
        seal(aside)


async def _wait_for_the_rest() -> None:
    """Return when Zarr's loop has nothing left to do but to wait, here or for another thread."""
    _WAITING.add(cast("asyncio.Task[Any]", asyncio.current_task()))
    while rest := asyncio.all_tasks().difference(_WAITING):
        await asyncio.wait(rest)
