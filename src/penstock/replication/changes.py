"""What brokers ask of the controller for their replicas, and the answers, as plain values: other in-sync sets
(AlterPartition), and to count replicas as dead whose disk has failed (AssignReplicasToDirs).
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.partition_state import PartitionState
from penstock.core.types import TopicId
from penstock.protocol.errors import ErrorCode

# Kafka's DirectoryId.LOST: whatever is assigned to it is offline.
LOST_DIRECTORY = (1).to_bytes(16, "big")


class InSyncChange(NamedTuple):
    topic_id: TopicId
    partition: int
    # The epochs that the leader knows: the controller refuses a change that was thought of in another state.
    leader_epoch: int
    partition_epoch: int
    # (node id, broker epoch) of each member, so that a member that has been gone since does not count (KIP-903).
    isr: tuple[tuple[int, int], ...]


class AlterPartitionResult(NamedTuple):
    topic_id: TopicId
    partition: int
    code: ErrorCode
    # The state after the change; None where the change was refused.
    state: PartitionState | None


class LostReplica(NamedTuple):
    """A replica whose disk has failed, as its broker tells the controller (KIP-112)."""

    topic_id: TopicId
    partition: int


class LostReplicaResult(NamedTuple):
    topic_id: TopicId
    partition: int
    code: ErrorCode
