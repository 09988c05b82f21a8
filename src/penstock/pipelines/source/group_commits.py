"""Commits a query's progress as the offsets of a consumer group. Lag tools see the query by it.

Both ways to follow a query end here: the source itself, which learns of a finished batch when the next one is planned,
and the listener of `group_progress`, which gets every batch. A failed commit never fails the query, whose own
progress is in its checkpoint; the next batch commits again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.core.types import TopicPartition
from penstock.pipelines.source.cluster import ClusterError, SourceCluster

logger = logging.getLogger(__name__)


class GroupCommits:
    def __init__(self, cluster: SourceCluster, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id

    def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Whether the group is as far as `offsets` now; there is nothing to do for none."""
        if not offsets:
            return True
        try:
            self._cluster.commit(self._group_id, offsets)
        except ClusterError as error:
            logger.warning("%s; the query goes on", error)
            return False
        return True
