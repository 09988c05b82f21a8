"""The records of `__consumer_offsets`, byte for byte Kafka's.

A key begins with its kind as an int16 (0 and 1: an offset, 2: a classic group; 3 to 8 and 16: `consumer_groups`), a
value with its version as an int16. Offsets are written as version 3; as 1 where an old client asked for its own
retention time, because only that version has a place for it; as 4 where the topic id is known. Groups are written as
version 3. Everything up to 4 is read.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from penstock.coordinators.outcome import CoordinatorRecord
from penstock.coordinators.record_framing import UnknownRecord, decode_body, encode_key, encode_value, leading_int16
from penstock.core.types import NO_LEADER_EPOCH, NO_OFFSET, NO_TIMESTAMP, ZERO_TOPIC_ID, TopicId
from penstock.groups.records.consumer_groups import ConsumerChange, decode_consumer_record
from penstock.protocol.messages.group_metadata_key import GroupMetadataKey
from penstock.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from penstock.protocol.messages.offset_commit_key import OffsetCommitKey
from penstock.protocol.messages.offset_commit_value import OffsetCommitValue

_LEGACY_OFFSET_KIND = 0
_OFFSET_KIND = 1
_GROUP_KIND = 2
_GROUP_VALUE_VERSION = 3
_OFFSET_VALUE_VERSION = 3
_OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
_OFFSET_VALUE_VERSION_WITH_TOPIC_ID = 4
# Offsets of the usual version are written and read without the codec: a commit of 10,000 offsets is one turn of the
# loop, and the codec made the turn 2.5 times as long. `test_records` compares the bytes with Kafka's.
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_VALUE_START = struct.Struct(">hqih")  # version, offset, leader epoch, length of the metadata
_VALUE_END = struct.Struct(">q")  # commit timestamp
_USUAL_KEY = _INT16.pack(_OFFSET_KIND)
_USUAL_VALUE = _INT16.pack(_OFFSET_VALUE_VERSION)
_KIND_SIZE = _INT16.size
_NAME_START = _KIND_SIZE + _INT16.size


class BatchPlace:
    """The position of a batch of `__consumer_offsets`. Offsets of a large commit are made before their batch is
    written, so they share one place, which replay fills in.
    """

    __slots__ = ("base_offset",)

    def __init__(self) -> None:
        self.base_offset = NO_OFFSET


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_TIMESTAMP  # only where the committing client set a retention time
    topic_id: TopicId = ZERO_TOPIC_ID
    # The position of the record in `__consumer_offsets`: counted from the beginning of the batch where `batch` is
    # given.
    record_offset: int = NO_OFFSET
    batch: BatchPlace | None = None

    @property
    def log_offset(self) -> int:
        """The offset of the record: decides between a transaction's commit and a later plain commit."""
        return self.record_offset if self.batch is None else self.batch.base_offset + self.record_offset


class RecordedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class RecordedGroup(NamedTuple):
    """A classic group in the log: a generation with every member's assignment."""

    protocol_type: str | None = None
    generation_id: int = 0
    protocol_name: str | None = None
    leader: str | None = None
    state_timestamp_ms: int = NO_TIMESTAMP
    members: tuple[RecordedMember, ...] = ()


class OffsetChange(NamedTuple):
    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None  # None: deleted


class GroupChange(NamedTuple):
    group_id: str
    recorded: RecordedGroup | None  # None: deleted


def encode_offset(group_id: str, topic: str, partition: int, committed: CommittedOffset | None) -> CoordinatorRecord:
    group_bytes, topic_bytes = group_id.encode(), topic.encode()
    key = b"".join(
        (
            _INT16.pack(_OFFSET_KIND),
            _INT16.pack(len(group_bytes)),
            group_bytes,
            _INT16.pack(len(topic_bytes)),
            topic_bytes,
            _INT32.pack(partition),
        )
    )
    if committed is None:
        return CoordinatorRecord(key, None)
    version = _offset_value_version(committed)
    if version == _OFFSET_VALUE_VERSION:
        metadata = committed.metadata.encode()
        start = _VALUE_START.pack(version, committed.offset, committed.leader_epoch, len(metadata))
        return CoordinatorRecord(key, start + metadata + _VALUE_END.pack(committed.commit_timestamp_ms))
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    return CoordinatorRecord(key, encode_value(value, version))


def as_recorded(committed: CommittedOffset) -> CommittedOffset:
    """The result of `decode_record` for the record: not every version has room for everything."""
    if _offset_value_version(committed) == _OFFSET_VALUE_VERSION_WITH_EXPIRY:
        return committed._replace(leader_epoch=NO_LEADER_EPOCH, topic_id=ZERO_TOPIC_ID)
    return committed


def encode_group(group_id: str, recorded: RecordedGroup | None) -> CoordinatorRecord:
    key = encode_key(_GROUP_KIND, GroupMetadataKey(group=group_id))
    if recorded is None:
        return CoordinatorRecord(key, None)
    value = GroupMetadataValue(
        protocol_type=recorded.protocol_type or "",
        generation=recorded.generation_id,
        protocol=recorded.protocol_name,
        leader=recorded.leader,
        current_state_timestamp=recorded.state_timestamp_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in recorded.members
        ],
    )
    return CoordinatorRecord(key, encode_value(value, _GROUP_VALUE_VERSION))


# The content of a record of any kind.
AnyChange = OffsetChange | GroupChange | ConsumerChange | UnknownRecord


def decode_record(key: bytes, value: bytes | None, record_offset: int = NO_OFFSET) -> AnyChange:
    """ApiError(CORRUPT_MESSAGE) if the bytes do not fit their version."""
    usual = _decode_usual_offset(key, value, record_offset)
    if usual is not None:
        return usual
    kind = leading_int16(key)
    if kind in (_LEGACY_OFFSET_KIND, _OFFSET_KIND):
        offset_key = decode_body(OffsetCommitKey, key)
        if value is None:
            return OffsetChange(offset_key.group, offset_key.topic, offset_key.partition, None)
        version = leading_int16(value)
        if version > OffsetCommitValue.MAX_VERSION:
            return UnknownRecord(f"offset value version {version}")
        committed = _committed_offset(decode_body(OffsetCommitValue, value, version), record_offset)
        return OffsetChange(offset_key.group, offset_key.topic, offset_key.partition, committed)
    if kind == _GROUP_KIND:
        group_id = decode_body(GroupMetadataKey, key).group
        if value is None:
            return GroupChange(group_id, None)
        version = leading_int16(value)
        if version > GroupMetadataValue.MAX_VERSION:
            return UnknownRecord(f"group value version {version}")
        return GroupChange(group_id, _recorded_group(decode_body(GroupMetadataValue, value, version)))
    return decode_consumer_record(kind, key, value) or UnknownRecord(f"key version {kind}")


def _decode_usual_offset(key: bytes, value: bytes | None, record_offset: int) -> OffsetChange | None:
    """None unless the record is a sound record of the usual version: the codec reads, or refuses, all others."""
    if value is None or key[:2] != _USUAL_KEY or value[:2] != _USUAL_VALUE:
        return None
    try:
        group_end = _NAME_START + _INT16.unpack_from(key, _KIND_SIZE)[0]
        topic_start = group_end + _INT16.size
        topic_end = topic_start + _INT16.unpack_from(key, group_end)[0]
        _, offset, leader_epoch, metadata_size = _VALUE_START.unpack_from(value)
        metadata_end = _VALUE_START.size + metadata_size
        if (
            not _NAME_START <= group_end < topic_start <= topic_end == len(key) - _INT32.size
            or not _VALUE_START.size <= metadata_end == len(value) - _VALUE_END.size
        ):
            return None
        committed = CommittedOffset(
            offset,
            leader_epoch,
            value[_VALUE_START.size : metadata_end].decode(),
            _VALUE_END.unpack_from(value, metadata_end)[0],
            NO_TIMESTAMP,
            ZERO_TOPIC_ID,
            record_offset,
        )
        group_id, topic = key[_NAME_START:group_end].decode(), key[topic_start:topic_end].decode()
        return OffsetChange(group_id, topic, _INT32.unpack_from(key, topic_end)[0], committed)
    except (struct.error, UnicodeDecodeError):
        return None


def _offset_value_version(committed: CommittedOffset) -> int:
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return _OFFSET_VALUE_VERSION_WITH_EXPIRY
    if committed.topic_id != ZERO_TOPIC_ID:
        return _OFFSET_VALUE_VERSION_WITH_TOPIC_ID
    return _OFFSET_VALUE_VERSION


def _committed_offset(value: OffsetCommitValue, record_offset: int) -> CommittedOffset:
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=value.expire_timestamp,
        topic_id=value.topic_id,
        record_offset=record_offset,
    )


def _recorded_group(value: GroupMetadataValue) -> RecordedGroup:
    members = tuple(
        RecordedMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            # Version 0 had one timeout for both purposes.
            rebalance_timeout_ms=member.session_timeout if member.rebalance_timeout == -1 else member.rebalance_timeout,
            session_timeout_ms=member.session_timeout,
            subscription=bytes(member.subscription),
            assignment=bytes(member.assignment),
        )
        for member in value.members
    )
    return RecordedGroup(
        protocol_type=value.protocol_type or None,
        generation_id=value.generation,
        protocol_name=value.protocol,
        leader=value.leader,
        state_timestamp_ms=value.current_state_timestamp,
        members=members,
    )
