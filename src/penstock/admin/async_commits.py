"""What groups have committed, changed from outside: to read again, or to leave something out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import penstock.admin.changes.groups as changes
from penstock.admin.queries.refusals import PartitionRefusals
from penstock.admin.state.groups import CommittedOffset
from penstock.client.brokers import Brokers
from penstock.core.types import TopicPartition


class AsyncCommits:
    """Raises what `AsyncAdmin` raises. `AsyncAdmin.groups` reads commits."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def alter(self, group_id: str, offsets: Mapping[TopicPartition, int | CommittedOffset]) -> PartitionRefusals:
        """What the group is to read next of each partition. A group that does not exist comes to be by it; one with
        members is refused.
        """
        return await changes.alter_commits(self._brokers, group_id, offsets)

    async def delete(self, group_id: str, places: Iterable[TopicPartition]) -> PartitionRefusals:
        """A partition of a topic that a member still reads is refused. ApiError where the group does not exist."""
        return await changes.delete_commits(self._brokers, group_id, places)
