"""Committed offsets of a group: fetched from and written to its coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import NamedTuple

from penstock.client.brokers import Brokers, CoordinatorKind
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode, error_of
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

NO_GENERATION = -1  # for a consumer that is no member


class Committed(NamedTuple):
    offset: int
    metadata: str = ""


class AsMember(NamedTuple):
    """The identity in a request to a group; the defaults are of a consumer that assigns its own partitions."""

    generation_id: int = NO_GENERATION
    member_id: str = ""


NO_MEMBER = AsMember()


async def fetch_committed(
    brokers: Brokers, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Committed]:
    """Without the partitions that have no committed offset. Raises ApiError and OSError."""
    by_topic = _by_topic(partitions)
    request = OffsetFetchRequest(
        group_id=group,
        topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=found) for topic, found in by_topic.items()],
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                topics=[
                    OffsetFetchRequestTopics(name=topic, partition_indexes=found) for topic, found in by_topic.items()
                ],
            )
        ],
        require_stable=True,
    )
    response: OffsetFetchResponse = await brokers.ask_coordinator(CoordinatorKind.GROUP, group, request, retry=True)
    answered = response.groups[0] if response.groups else response  # a list since version 8
    _raise_for(answered.error_code)
    committed: dict[TopicPartition, Committed] = {}
    for topic in answered.topics:
        for each in topic.partitions:
            _raise_for(each.error_code)
            if each.committed_offset >= 0:
                found = Committed(each.committed_offset, each.metadata or "")
                committed[TopicPartition(topic.name, each.partition_index)] = found
    return committed


async def commit(
    brokers: Brokers, group: str, offsets: Mapping[TopicPartition, Committed], member: AsMember = NO_MEMBER
) -> None:
    """Raises ApiError, that of the first refused partition, and OSError."""
    if not offsets:
        return
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=offsets[TopicPartition(topic, number)].offset,
                        committed_metadata=offsets[TopicPartition(topic, number)].metadata,
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in _by_topic(offsets).items()
        ],
    )
    response: OffsetCommitResponse = await brokers.ask_coordinator(CoordinatorKind.GROUP, group, request, retry=True)
    for topic in response.topics:
        for each in topic.partitions:
            _raise_for(each.error_code)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    ordered = groupby(sorted(partitions), key=lambda each: each.topic)
    return {topic: [each.partition for each in found] for topic, found in ordered}


def _raise_for(code: int) -> None:
    if code != ErrorCode.NONE:
        raise error_of(code)
