"""Hand out a domain's images to the workers of a cluster, block by block; every row comes back to one writer.

Workers read images and return rows; this process alone writes, to the same progress log as without a cluster. So a
block that is done twice (its worker died before the rows were fetched) is recorded once, and a run that ends early,
for whatever reason, goes on from there with or without a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipeline.errors import listed
from pipeline.execution.block_sizes import BlockSizes
from pipeline.execution.cluster import Cluster, say
from pipeline.execution.extraction import Batch, Embedded, Picture
from pipeline.stages.embed_block import BlockRows


def embed_on_cluster(
    cluster: Cluster,
    embed: Callable[[Batch], BlockRows],
    batches: Sequence[Batch],
    record: Callable[[list[bytes], Embedded], None],
) -> None:
    """Have workers ``embed`` the batches, recording rows as they come."""
    devices: set[str] = set()
    blocks = BlockSizes([_absolute(batch) for batch in batches], cluster.threads)
    for block, made in cluster.collect(embed, blocks):
        for digests, embedded in made.batches:
            record(digests, embedded)
        blocks.took(len(block.pictures), made.seconds)
        devices.add(made.device)
    if len(devices) > 1:
        say(
            f"the workers compute on {listed(sorted(devices))}, which may round differently: "
            "embedded again, last bits may differ"
        )


def _absolute(batch: Batch) -> Batch:
    """Return the batch with paths that hold in any working directory."""
    pictures = tuple(Picture(picture.path.absolute(), picture.digest) for picture in batch.pictures)
    return Batch(pictures, batch.views)
