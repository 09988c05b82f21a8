"""Requests of brokers to the controller about their replicas, and the answers, as plain values: other in-sync sets
(AlterPartition), and replicas with a failed disk that count as dead (AssignReplicasToDirs).
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.partition_state import PartitionState
from penstock.core.types import TopicId
from penstock.protocol.errors import ErrorCode

# Kafka's DirectoryId.LOST: an assignment to it marks a replica as offline.
LOST_DIRECTORY = (1).to_bytes(16, "big")


class InSyncChange(NamedTuple):
    topic_id: TopicId
    partition: int
    # The epochs that the leader knows: the controller refuses a change that was made for another state.
    leader_epoch: int
    partition_epoch: int
    # (node id, broker epoch) of each member, so that a member that was away since does not count (KIP-903).
    isr: tuple[tuple[int, int], ...]


class AlterPartitionResult(NamedTuple):
    topic_id: TopicId
    partition: int
    code: ErrorCode
    # The state after the change; None where the change was refused.
    state: PartitionState | None


class LostReplica(NamedTuple):
    """A replica whose disk has failed, in its broker's report to the controller (KIP-112)."""

    topic_id: TopicId
    partition: int


class LostReplicaResult(NamedTuple):
    topic_id: TopicId
    partition: int
    code: ErrorCode
