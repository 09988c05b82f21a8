"""OffsetFetch: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import ZERO_UUID, Message


class OffsetFetchResponsePartition(Message):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    FIELDS = (
        Field("partition_index", "int32", (0, 7), default=0),
        Field("committed_offset", "int64", (0, 7), default=0),
        Field("committed_leader_epoch", "int32", (5, 7), default=-1),
        Field("metadata", "string", (0, 7), nullable=(0, 7), default=""),
        Field("error_code", "int16", (0, 7), default=0),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopic(Message):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", (0, 7), default=""),
        Field("partitions", [OffsetFetchResponsePartition], (0, 7), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetFetchResponsePartition] | None = None,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class OffsetFetchResponsePartitions(Message):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    FIELDS = (
        Field("partition_index", "int32", (8, 32767), default=0),
        Field("committed_offset", "int64", (8, 32767), default=0),
        Field("committed_leader_epoch", "int32", (8, 32767), default=-1),
        Field("metadata", "string", (8, 32767), nullable=(8, 32767), default=""),
        Field("error_code", "int16", (8, 32767), default=0),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopics(Message):
    __slots__ = ("name", "topic_id", "partitions")
    FIELDS = (
        Field("name", "string", (8, 9), default=""),
        Field("topic_id", "uuid", (10, 32767), default=ZERO_UUID),
        Field("partitions", [OffsetFetchResponsePartitions], (8, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetFetchResponsePartitions] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class OffsetFetchResponseGroup(Message):
    __slots__ = ("group_id", "topics", "error_code")
    FIELDS = (
        Field("group_id", "string", (8, 32767), default=""),
        Field("topics", [OffsetFetchResponseTopics], (8, 32767), default=()),
        Field("error_code", "int16", (8, 32767), default=0),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchResponseTopics] | None = None,
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is None else topics
        self.error_code = error_code


class OffsetFetchResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "error_code", "groups")
    FIELDS = (
        Field("throttle_time_ms", "int32", (3, 32767), default=0),
        Field("topics", [OffsetFetchResponseTopic], (0, 7), default=()),
        Field("error_code", "int16", (2, 7), default=0),
        Field("groups", [OffsetFetchResponseGroup], (8, 32767), default=()),
    )
    API_KEY = 9
    MIN_VERSION = 1
    MAX_VERSION = 10
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetFetchResponseTopic] | None = None,
        error_code: int = 0,
        groups: list[OffsetFetchResponseGroup] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics
        self.error_code = error_code
        self.groups = [] if groups is None else groups


class OffsetFetchRequestTopic(Message):
    __slots__ = ("name", "partition_indexes")
    FIELDS = (
        Field("name", "string", (0, 7), default=""),
        Field("partition_indexes", ["int32"], (0, 7), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] | None = None,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is None else partition_indexes


class OffsetFetchRequestTopics(Message):
    __slots__ = ("name", "topic_id", "partition_indexes")
    FIELDS = (
        Field("name", "string", (8, 9), default=""),
        Field("topic_id", "uuid", (10, 32767), default=ZERO_UUID),
        Field("partition_indexes", ["int32"], (8, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_indexes: list[int] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes = [] if partition_indexes is None else partition_indexes


class OffsetFetchRequestGroup(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "topics")
    FIELDS = (
        Field("group_id", "string", (8, 32767), default=""),
        Field("member_id", "string", (9, 32767), nullable=(9, 32767)),
        Field("member_epoch", "int32", (9, 32767), default=-1),
        Field("topics", [OffsetFetchRequestTopics], (8, 32767), nullable=(8, 32767), default=()),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: list[OffsetFetchRequestTopics] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = topics


class OffsetFetchRequest(Message):
    __slots__ = ("group_id", "topics", "groups", "require_stable")
    FIELDS = (
        Field("group_id", "string", (0, 7), default=""),
        Field("topics", [OffsetFetchRequestTopic], (0, 7), nullable=(2, 7), default=()),
        Field("groups", [OffsetFetchRequestGroup], (8, 32767), default=()),
        Field("require_stable", "bool", (7, 32767), default=False),
    )
    API_KEY = 9
    MIN_VERSION = 1
    MAX_VERSION = 10
    FLEXIBLE_FROM = 6
    RESPONSE = OffsetFetchResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchRequestTopic] | None = None,
        groups: list[OffsetFetchRequestGroup] | None = None,
        require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.groups = [] if groups is None else groups
        self.require_stable = require_stable
