"""The metadata and assignments of protocol type "consumer", which are opaque to the group protocol.

Version 0 of ConsumerProtocolSubscription is a prefix of every later version, so classic groups read only that: new
client versions need no change here. Only a group that migrates from one protocol to the other has to know it all. The
metadata of other protocol types ("connect", "stream") is theirs alone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from penstock.groups.topics import TopicIdPartition, Topics, by_topic
from penstock.protocol.codec import decode_prefix, encode
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"

_VERSION = struct.Struct(">h")


def decode_subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """None if the bytes are not a consumer subscription."""
    if len(metadata) < _VERSION.size or _VERSION.unpack_from(metadata)[0] < 0:
        return None
    try:
        subscription, _ = decode_prefix(ConsumerProtocolSubscription, metadata, 0, _VERSION.size)
    except ApiError:
        return None
    return frozenset(subscription.topics)


class Subscription(NamedTuple):
    topics: frozenset[str]
    owned: frozenset[TopicIdPartition]  # of topics that exist
    rack_id: str | None


def decode_subscription(metadata: bytes, topics: Topics) -> Subscription:
    """ApiError(INCONSISTENT_GROUP_PROTOCOL) if the bytes are not a consumer subscription."""
    version = _known_version(metadata, ConsumerProtocolSubscription.MAX_VERSION)
    try:
        body, _ = decode_prefix(ConsumerProtocolSubscription, metadata, version, _VERSION.size)
    except ApiError as error:
        raise _malformed() from error
    owned = ((topic.topic, topic.partitions) for topic in body.owned_partitions)
    return Subscription(frozenset(body.topics), _with_ids(owned, topics), body.rack_id)


def decode_assignment(assignment: bytes, topics: Topics) -> tuple[frozenset[TopicIdPartition], bool]:
    """(the partitions of existing topics, whether a custom assignor has added data)"""
    if not assignment:
        return frozenset(), False
    version = _known_version(assignment, ConsumerProtocolAssignment.MAX_VERSION)
    try:
        body, _ = decode_prefix(ConsumerProtocolAssignment, assignment, version, _VERSION.size)
    except ApiError as error:
        raise _malformed() from error
    assigned = ((topic.topic, topic.partitions) for topic in body.assigned_partitions)
    return _with_ids(assigned, topics), bool(body.user_data)


def encode_assignment_for(metadata: bytes, partitions: Iterable[TopicIdPartition], topics: Topics) -> bytes:
    """In the version of the member's `metadata`."""
    version = _known_version(metadata, ConsumerProtocolAssignment.MAX_VERSION)
    assigned = [
        TopicPartition(topic=topics.by_id[topic_id].name, partitions=indexes)
        for topic_id, indexes in by_topic(partitions).items()
        if topic_id in topics.by_id
    ]
    return _VERSION.pack(version) + encode(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def _known_version(data: bytes, highest: int) -> int:
    if len(data) < _VERSION.size or _VERSION.unpack_from(data)[0] < 0:
        raise _malformed()
    return min(int(_VERSION.unpack_from(data)[0]), highest)


def _malformed() -> ApiError:
    return ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the embedded consumer protocol is malformed")


def _with_ids(named: Iterable[tuple[str, Iterable[int]]], topics: Topics) -> frozenset[TopicIdPartition]:
    return frozenset(
        TopicIdPartition(topics.by_name[name].topic_id, index)
        for name, indexes in named
        if name in topics.by_name
        for index in indexes
    )
