"""OffsetCommit: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import ZERO_UUID, Message


class OffsetCommitResponsePartition(Message):
    __slots__ = ("partition_index", "error_code")
    FIELDS = (
        Field("partition_index", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetCommitResponseTopic(Message):
    __slots__ = ("name", "topic_id", "partitions")
    FIELDS = (
        Field("name", "string", (0, 9), default=""),
        Field("topic_id", "uuid", (10, 32767), default=ZERO_UUID),
        Field("partitions", [OffsetCommitResponsePartition], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetCommitResponsePartition] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class OffsetCommitResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    FIELDS = (
        Field("throttle_time_ms", "int32", (3, 32767), default=0),
        Field("topics", [OffsetCommitResponseTopic], (0, 32767), default=()),
    )
    API_KEY = 8
    MIN_VERSION = 2
    MAX_VERSION = 10
    FLEXIBLE_FROM = 8

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetCommitResponseTopic] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics


class OffsetCommitRequestPartition(Message):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")
    FIELDS = (
        Field("partition_index", "int32", (0, 32767), default=0),
        Field("committed_offset", "int64", (0, 32767), default=0),
        Field("committed_leader_epoch", "int32", (6, 32767), default=-1),
        Field("committed_metadata", "string", (0, 32767), nullable=(0, 32767), default=""),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


class OffsetCommitRequestTopic(Message):
    __slots__ = ("name", "topic_id", "partitions")
    FIELDS = (
        Field("name", "string", (0, 9), default=""),
        Field("topic_id", "uuid", (10, 32767), default=ZERO_UUID),
        Field("partitions", [OffsetCommitRequestPartition], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetCommitRequestPartition] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class OffsetCommitRequest(Message):
    __slots__ = ("group_id", "generation_id_or_member_epoch", "member_id", "group_instance_id", "retention_time_ms", "topics")
    FIELDS = (
        Field("group_id", "string", (0, 32767), default=""),
        Field("generation_id_or_member_epoch", "int32", (1, 32767), default=-1),
        Field("member_id", "string", (1, 32767), default=""),
        Field("group_instance_id", "string", (7, 32767), nullable=(7, 32767)),
        Field("retention_time_ms", "int64", (2, 4), default=-1),
        Field("topics", [OffsetCommitRequestTopic], (0, 32767), default=()),
    )
    API_KEY = 8
    MIN_VERSION = 2
    MAX_VERSION = 10
    FLEXIBLE_FROM = 8
    RESPONSE = OffsetCommitResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: list[OffsetCommitRequestTopic] | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = [] if topics is None else topics
