"""The controller's services for other brokers. `Metadata` implements them.

Every method raises ApiError for the request as a whole: NOT_CONTROLLER, or STALE_BROKER_EPOCH of the asking broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.replication.changes import AlterPartitionResult, InSyncChange, LostReplica, LostReplicaResult


class ControllerPort(Protocol):
    async def alter_partition(
        self, asker: int, asker_epoch: int, changes: Sequence[InSyncChange]
    ) -> Sequence[AlterPartitionResult]:
        """Changes in-sync sets as far as the rules allow. One result for each change, in their order."""

    async def lose_replicas(
        self, asker: int, asker_epoch: int, lost: Sequence[LostReplica]
    ) -> Sequence[LostReplicaResult]:
        """Counts replicas of the asking broker as dead. One result for each, in their order."""

    async def begin_shutdown(self, node_id: int, broker_epoch: int) -> int:
        """Moves the broker's leaderships to other brokers. Returns how many it keeps because no other broker can
        lead.
        """
