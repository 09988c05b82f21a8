"""What a leader asks of the controller about in-sync sets, and what the controller answers (AlterPartition)."""

from __future__ import annotations

from typing import NamedTuple

from penstock.cluster.image import PartitionState
from penstock.core.types import TopicId
from penstock.protocol.errors import ErrorCode


class InSyncChange(NamedTuple):
    """The in-sync set that a leader wants, with the epochs of partition and brokers that the leader knows."""

    topic_id: TopicId
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]  # (node id, broker epoch)


class AlterPartitionResult(NamedTuple):
    topic_id: TopicId
    partition: int
    code: ErrorCode
    state: PartitionState | None  # as it stands now; None with an error
