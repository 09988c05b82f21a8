"""What the controller does for other brokers. `Metadata` does it.

Every method raises ApiError for the request as a whole: NOT_CONTROLLER, or STALE_BROKER_EPOCH of the asker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.replication.changes import AlterPartitionResult, InSyncChange, LostReplica, LostReplicaResult


class ControllerDuties(Protocol):
    async def alter_partition(
        self, asker: int, asker_epoch: int, changes: Sequence[InSyncChange]
    ) -> Sequence[AlterPartitionResult]:
        """Changes in-sync sets as far as the rules allow. One result for each change, in their order."""

    async def lose_replicas(
        self, asker: int, asker_epoch: int, lost: Sequence[LostReplica]
    ) -> Sequence[LostReplicaResult]:
        """Replicas of the asker count as dead. One result for each, in their order."""

    async def begin_shutdown(self, node_id: int, broker_epoch: int) -> int:
        """Moves what the broker leads to others. How many partitions it leads on because nobody else can."""
