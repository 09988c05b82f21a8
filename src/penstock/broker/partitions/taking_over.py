"""The refusals of a new leader while requests may still wait at the former leader.

A Java producer sends its next batches to a new leader while earlier batches are in flight at the former leader, which
may be paused and refuse them later. A log that does not know the producer would take a later batch for its first batch.
The earlier batches are out of order for good then: the producer raises its epoch, and batches that were appended and
not acknowledged come twice.

Rules:
- For a while after another broker led, the leader refuses the first batch of a producer, or of an epoch, that the log
  does not know, unless the batch has sequence 0. Clients repeat the batch after this error, and the error tells them
  that nothing was written.
- A log whose first records were deleted may never have seen a producer that has written to the partition: this replica
  may be younger than the deletion. Such a log takes any batch, as Kafka does.
- Some producers look like a producer whose first batches wait elsewhere: those whose last records here are older than
  `producer.id.expiration.ms`, those that continue where a topic was recreated, and those whose records an unclean
  election has lost. They repeat their batches until the while is over.
- The while is as long as clients wait for an answer by default. A client that learns of the new leader later, or waits
  longer, can still begin with a later batch, as with Kafka.
"""

from __future__ import annotations

from penstock.cluster.image import PartitionState
from penstock.log.partition_log import PartitionLog
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Buffer

# The `request.timeout.ms` of clients. Half of their `transaction.timeout.ms` and a quarter of their
# `delivery.timeout.ms`, so that a waiting producer does not fail by its defaults.
TAKING_OVER_MS = 30_000


def may_follow_another(former: PartitionState | None, state: PartitionState) -> bool:
    """Whether another broker may have led just before `state`, in which this broker leads. `former` is the previous
    state here; None when this broker has just started.
    """
    if former is None:
        return state.leader_epoch > 0 and len(state.replicas) > 1
    is_own = former.leader == state.leader
    return state.leader_epoch > former.leader_epoch + is_own


def check_first_batch(records: Buffer, log: PartitionLog) -> None:
    """ApiError where earlier batches of the producer may wait at the former leader. `records` has a whole header."""
    if log.log_start_offset > 0:
        return
    header = read_header(records)
    if not header.has_producer or header.base_sequence <= 0:
        return
    known = log.producers.entries.get(header.producer_id)
    if known is None or known.producer_epoch < header.producer_epoch:
        raise ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"producer {header.producer_id} of {log.topic_partition} begins with sequence "
            f"{header.base_sequence}: earlier batches may wait at the former leader",
        )
