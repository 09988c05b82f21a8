"""What members of type `consumer` tell each other: subscriptions and assignments, and the range assignor."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from penstock.client.brokers import Brokers
from penstock.client.membership import Assign, JoinedMember
from penstock.core.types import TopicPartition
from penstock.protocol import codec
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages import consumer_protocol_assignment as assignments
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

__all__ = [
    "CONSUMER",
    "RANGE",
    "assign_by_range",
    "assign_ranges",
    "read_assignment",
    "read_subscription",
    "write_assignment",
    "write_subscription",
]

CONSUMER = "consumer"  # the protocol type
RANGE = "range"  # the protocol's name

_VERSION = struct.Struct(">h")
# Later versions add to what version 0 has, at its end: owned partitions, a generation and a rack, which none of ours
# needs.
_WRITTEN = 0


def write_subscription(topics: Iterable[str], user_data: bytes | None = None) -> bytes:
    body = ConsumerProtocolSubscription(topics=sorted(set(topics)), user_data=user_data)
    return _VERSION.pack(_WRITTEN) + codec.encode(body, _WRITTEN)


def read_subscription(data: bytes) -> list[str]:
    """The topics. ApiError CORRUPT_MESSAGE."""
    _check(data)
    try:
        return list(codec.decode_prefix(ConsumerProtocolSubscription, data, _WRITTEN, _VERSION.size)[0].topics)
    except ApiError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the bytes are no subscription: {error.message}") from error


def write_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    rows = [assignments.TopicPartition(topic=name, partitions=indexes) for name, indexes in topics.items()]
    body = assignments.ConsumerProtocolAssignment(assigned_partitions=rows)
    return _VERSION.pack(_WRITTEN) + codec.encode(body, _WRITTEN)


def read_assignment(data: bytes) -> list[TopicPartition]:
    """In the order of the bytes; nothing for no bytes. ApiError CORRUPT_MESSAGE."""
    if not data:
        return []
    _check(data)
    try:
        body, _ = codec.decode_prefix(assignments.ConsumerProtocolAssignment, data, _WRITTEN, _VERSION.size)
    except ApiError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the bytes are no assignment: {error.message}") from error
    return [TopicPartition(row.topic, index) for row in body.assigned_partitions for index in row.partitions]


def assign_ranges(
    subscriptions: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Per topic, a contiguous range for each member that subscribes, in the order of member ids: Java's RangeAssignor
    without racks. `partitions` has the topics that exist."""
    given: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for topic, count in sorted(partitions.items()):
        members = sorted(member for member, topics in subscriptions.items() if topic in topics)
        start = 0
        for place, member in enumerate(members):
            size = count // len(members) + (place < count % len(members))
            given[member] += (TopicPartition(topic, index) for index in range(start, start + size))
            start += size
    return given


def assign_by_range(brokers: Brokers) -> Assign:
    """The function that a `Member` of type `consumer` takes."""

    async def assign(_: str, members: Sequence[JoinedMember]) -> dict[str, bytes]:
        subscriptions = {member.member_id: _topics_of(member) for member in members}
        wanted = sorted({topic for topics in subscriptions.values() for topic in topics})
        answer = await brokers.metadata(wanted)
        counts = {topic.name: len(topic.partitions) for topic in answer.topics if topic.name and not topic.error_code}
        given = assign_ranges(subscriptions, counts)
        return {member: write_assignment(partitions) for member, partitions in given.items()}

    return assign


def _topics_of(member: JoinedMember) -> list[str]:
    """Another member's nonsense is its own misfortune: it gets nothing."""
    try:
        return read_subscription(member.metadata)
    except ApiError:
        return []


def _check(data: bytes) -> None:
    if len(data) < _VERSION.size or _VERSION.unpack_from(data)[0] < 0:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the bytes are not of the consumer protocol")
