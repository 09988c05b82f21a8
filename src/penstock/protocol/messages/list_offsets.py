"""ListOffsets: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class ListOffsetsPartitionResponse(Message):
    __slots__ = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")
    FIELDS = (
        Field("partition_index", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("timestamp", "int64", (1, 32767), default=-1),
        Field("offset", "int64", (1, 32767), default=-1),
        Field("leader_epoch", "int32", (4, 32767), default=-1),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch


class ListOffsetsTopicResponse(Message):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("partitions", [ListOffsetsPartitionResponse], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsPartitionResponse] | None = None,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class ListOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    FIELDS = (
        Field("throttle_time_ms", "int32", (2, 32767), default=0),
        Field("topics", [ListOffsetsTopicResponse], (0, 32767), default=()),
    )
    API_KEY = 2
    MIN_VERSION = 1
    MAX_VERSION = 11
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[ListOffsetsTopicResponse] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics


class ListOffsetsPartition(Message):
    __slots__ = ("partition_index", "current_leader_epoch", "timestamp")
    FIELDS = (
        Field("partition_index", "int32", (0, 32767), default=0),
        Field("current_leader_epoch", "int32", (4, 32767), default=-1),
        Field("timestamp", "int64", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        current_leader_epoch: int = -1,
        timestamp: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp


class ListOffsetsTopic(Message):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("partitions", [ListOffsetsPartition], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsPartition] | None = None,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class ListOffsetsRequest(Message):
    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms")
    FIELDS = (
        Field("replica_id", "int32", (0, 32767), default=0),
        Field("isolation_level", "int8", (2, 32767), default=0),
        Field("topics", [ListOffsetsTopic], (0, 32767), default=()),
        Field("timeout_ms", "int32", (10, 32767), default=0),
    )
    API_KEY = 2
    MIN_VERSION = 1
    MAX_VERSION = 11
    FLEXIBLE_FROM = 6
    RESPONSE = ListOffsetsResponse

    def __init__(
        self,
        *,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: list[ListOffsetsTopic] | None = None,
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = [] if topics is None else topics
        self.timeout_ms = timeout_ms
