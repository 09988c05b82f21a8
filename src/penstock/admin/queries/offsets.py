"""Where partitions begin and end, and which offset belongs to a time: ListOffsets, by leader and in slices.

Where the log of one replica ends, any replica tells the "debugging" replica -2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from penstock.admin.queries.slices import cut_partitions
from penstock.admin.state.cluster import LogEnd
from penstock.admin.state.partitions import PartitionState, ReplicaKey
from penstock.admin.state.parts import Failure, Partial
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode, error_of
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from penstock.admin.look import Look

# What ListOffsets takes in the place of a time.
LAST: Final = -1
FIRST: Final = -2

_CONSUMER, _DEBUGGING_REPLICA = -1, -2
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_NO_OFFSET = -1


async def list_offsets(
    look: Look,
    partitions: Iterable[PartitionState],
    present: Collection[int],
    *,
    at: int | Mapping[TopicPartition, int] = LAST,
    is_committed: bool = False,
) -> Partial[dict[TopicPartition, int]]:
    """`at` is FIRST, LAST or a time in milliseconds, for all or for each. For a time: the first offset of a record that
    is not older; a partition whose records are all older is left out. `is_committed` ends at the last stable offset.
    Partitions without a leader are left out.
    """
    wanted: dict[int, list[TopicPartition]] = {}
    for each in partitions:
        if each.leader in present:
            wanted.setdefault(each.leader, []).append(each.key)
    requests = (
        (node_id, offsets_request(topics, at, is_committed=is_committed)) for node_id, topics in cut_partitions(wanted)
    )
    answers, failures = await look.ask_each("offsets", requests)
    found: dict[TopicPartition, int] = {}
    for _, _, answer in answers:
        some, refused = read_offsets(answer)
        found |= some
        failures = (*failures, *refused)
    return Partial(found, failures)


def offsets_request(
    topics: Mapping[str, Iterable[int]], at: int | Mapping[TopicPartition, int], *, is_committed: bool
) -> ListOffsetsRequest:
    return _request(topics, at, _CONSUMER, _READ_COMMITTED if is_committed else _READ_UNCOMMITTED)


def read_offsets(answer: ListOffsetsResponse) -> Partial[dict[TopicPartition, int]]:
    found: dict[TopicPartition, int] = {}
    refused = []
    for topic in answer.topics:
        for row in topic.partitions:
            place = TopicPartition(topic.name, row.partition_index)
            if row.error_code != ErrorCode.NONE:
                refused.append(Failure.of(str(place), error_of(row.error_code)))
            elif row.offset != _NO_OFFSET:
                found[place] = row.offset
    return Partial(found, tuple(refused))


async def list_log_ends(
    look: Look, partitions: Iterable[tuple[TopicPartition, Iterable[int]]], present: Collection[int]
) -> Partial[dict[ReplicaKey, LogEnd]]:
    """Of each replica on one of the brokers that are present. Replicas whose broker does not answer, or does not have
    them, are left out.
    """
    wanted: dict[int, list[TopicPartition]] = {}
    for place, replicas in partitions:
        for node_id in replicas:
            if node_id in present:
                wanted.setdefault(node_id, []).append(place)
    requests = ((node_id, log_ends_request(topics)) for node_id, topics in cut_partitions(wanted))
    answers, failures = await look.ask_each("log ends", requests)
    ends: dict[ReplicaKey, LogEnd] = {}
    for node_id, _, answer in answers:
        ends |= read_log_ends(node_id, answer)
    return Partial(ends, failures)


def log_ends_request(topics: Mapping[str, Iterable[int]]) -> ListOffsetsRequest:
    return _request(topics, LAST, _DEBUGGING_REPLICA, _READ_UNCOMMITTED)


def read_log_ends(node_id: int, answer: ListOffsetsResponse) -> dict[ReplicaKey, LogEnd]:
    """Of the replicas that the broker has."""
    return {
        ReplicaKey(topic.name, row.partition_index, node_id): LogEnd(row.leader_epoch, row.offset)
        for topic in answer.topics
        for row in topic.partitions
        if row.error_code == ErrorCode.NONE
    }


def _request(
    topics: Mapping[str, Iterable[int]], at: int | Mapping[TopicPartition, int], replica_id: int, isolation: int
) -> ListOffsetsRequest:
    rows = []
    for name, indexes in topics.items():
        partitions = [
            ListOffsetsPartition(
                partition_index=index, timestamp=at if isinstance(at, int) else at[TopicPartition(name, index)]
            )
            for index in indexes
        ]
        rows.append(ListOffsetsTopic(name=name, partitions=partitions))
    return ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation, topics=rows)
