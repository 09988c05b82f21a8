"""How far a group has come: what it has committed, and where its partitions end."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client.brokers import Brokers, CoordinatorKind
from penstock.client.fetching import LATEST
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseTopics,
)
from penstock.rest.v3.calls import check

_READ_COMMITTED = 1
_ALL_TOPICS = None


async def committed_offsets(brokers: Brokers, group_id: str) -> dict[TopicPartition, int]:
    """Of every topic. Raises ApiError."""
    asked = OffsetFetchRequestGroup(group_id=group_id, topics=_ALL_TOPICS)
    request = OffsetFetchRequest(group_id=group_id, topics=_ALL_TOPICS, groups=[asked])
    answer: OffsetFetchResponse = await brokers.ask_coordinator(CoordinatorKind.GROUP, group_id, request, retry=True)
    if not answer.groups:  # before version 8
        check(answer.error_code)
        rows = [(topic.name, row) for topic in answer.topics for row in topic.partitions]
        return {
            TopicPartition(name, row.partition_index): row.committed_offset
            for name, row in rows
            if row.error_code == ErrorCode.NONE and row.committed_offset >= 0
        }
    group = answer.groups[0]
    check(group.error_code)
    names = await _names_of(brokers, group.topics)
    return {
        TopicPartition(name, row.partition_index): row.committed_offset
        for topic, name in zip(group.topics, names, strict=True)
        for row in topic.partitions
        if name and row.error_code == ErrorCode.NONE and row.committed_offset >= 0
    }


async def _names_of(brokers: Brokers, topics: list[OffsetFetchResponseTopics]) -> list[str]:
    """Since version 10 an answer has ids. A topic that is gone has no name."""
    if all(topic.name for topic in topics):
        return [topic.name for topic in topics]
    metadata = await brokers.metadata(None)
    names = {row.topic_id: row.name or "" for row in metadata.topics}
    return [topic.name or names.get(topic.topic_id, "") for topic in topics]


async def end_offsets(brokers: Brokers, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The last stable offsets: what a consumer of committed records can come to. One request for each broker that
    leads; partitions that have no leader, or are gone, are left out.
    """
    wanted = set(places)
    metadata = await brokers.metadata(sorted({place.topic for place in wanted}))
    by_leader: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
    for topic in metadata.topics:
        name = topic.name or ""
        for row in topic.partitions:
            if row.leader_id >= 0 and TopicPartition(name, row.partition_index) in wanted:
                asked = ListOffsetsPartition(
                    partition_index=row.partition_index, current_leader_epoch=-1, timestamp=LATEST
                )
                by_leader.setdefault(row.leader_id, {}).setdefault(name, []).append(asked)
    found: dict[TopicPartition, int] = {}
    for leader, topics in by_leader.items():
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=_READ_COMMITTED,
            topics=[ListOffsetsTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )
        answer: ListOffsetsResponse = await brokers.ask_node(leader, request, retry=True)
        for told in answer.topics:
            for end in told.partitions:
                if end.error_code == ErrorCode.NONE:
                    found[TopicPartition(told.name, end.partition_index)] = end.offset
    return found
