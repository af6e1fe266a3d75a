"""Where a stage's statistics are made: here, or on a cluster by seeds or by ranges of rows.

Few rows: whole seeds are handed out, one worker computes what this process would have, to the bit. Many (more than
features are kept of in memory): the seeds run here, ranges of the rows of each task are handed out, and what comes back
is one sum; solving stays here.
"""

from __future__ import annotations

from typing import NamedTuple

from pipeline.execution.cluster import Cluster
from pipeline.execution.cluster_ranges import ClusterRanges
from pipeline.method.row_ranges import RowRanges
from pipeline.method.task_features import kept_whole


class StatisticsPlace(NamedTuple):
    """seeds: the cluster that takes whole seeds. ranges: who takes ranges of rows. Neither: all is done here."""

    seeds: Cluster | None
    ranges: RowRanges | None


def statistics_place(
    cluster: Cluster | None, *, images: int, views: int, D: int
) -> StatisticsPlace:
    """Choose by the most ``images`` that are looked at together, their ``views`` and features D."""
    if cluster is None:
        return StatisticsPlace(None, None)
    if kept_whole(images, views, D):
        return StatisticsPlace(cluster, None)
    return StatisticsPlace(None, ClusterRanges(cluster))
