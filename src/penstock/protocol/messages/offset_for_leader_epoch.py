"""OffsetForLeaderEpoch: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class EpochEndOffset(Message):
    __slots__ = ("error_code", "partition", "leader_epoch", "end_offset")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("partition", "int32", (0, 32767), default=0),
        Field("leader_epoch", "int32", (1, 32767), default=-1),
        Field("end_offset", "int64", (0, 32767), default=-1),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition: int = 0,
        leader_epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset


class OffsetForLeaderTopicResult(Message):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        Field("topic", "string", (0, 32767), default=""),
        Field("partitions", [EpochEndOffset], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[EpochEndOffset] | None = None,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class OffsetForLeaderEpochResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    FIELDS = (
        Field("throttle_time_ms", "int32", (2, 32767), default=0),
        Field("topics", [OffsetForLeaderTopicResult], (0, 32767), default=()),
    )
    API_KEY = 23
    MIN_VERSION = 2
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetForLeaderTopicResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics


class OffsetForLeaderPartition(Message):
    __slots__ = ("partition", "current_leader_epoch", "leader_epoch")
    FIELDS = (
        Field("partition", "int32", (0, 32767), default=0),
        Field("current_leader_epoch", "int32", (2, 32767), default=-1),
        Field("leader_epoch", "int32", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch


class OffsetForLeaderTopic(Message):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        Field("topic", "string", (0, 32767), default=""),
        Field("partitions", [OffsetForLeaderPartition], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[OffsetForLeaderPartition] | None = None,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class OffsetForLeaderEpochRequest(Message):
    __slots__ = ("replica_id", "topics")
    FIELDS = (
        Field("replica_id", "int32", (3, 32767), default=-2),
        Field("topics", [OffsetForLeaderTopic], (0, 32767), default=()),
    )
    API_KEY = 23
    MIN_VERSION = 2
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4
    RESPONSE = OffsetForLeaderEpochResponse

    def __init__(
        self,
        *,
        replica_id: int = -2,
        topics: list[OffsetForLeaderTopic] | None = None,
    ) -> None:
        self.replica_id = replica_id
        self.topics = [] if topics is None else topics
