"""TxnOffsetCommit: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class TxnOffsetCommitResponsePartition(Message):
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


class TxnOffsetCommitResponseTopic(Message):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("partitions", [TxnOffsetCommitResponsePartition], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[TxnOffsetCommitResponsePartition] | None = None,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class TxnOffsetCommitResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("topics", [TxnOffsetCommitResponseTopic], (0, 32767), default=()),
    )
    API_KEY = 28
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[TxnOffsetCommitResponseTopic] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics


class TxnOffsetCommitRequestPartition(Message):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")
    FIELDS = (
        Field("partition_index", "int32", (0, 32767), default=0),
        Field("committed_offset", "int64", (0, 32767), default=0),
        Field("committed_leader_epoch", "int32", (2, 32767), default=-1),
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


class TxnOffsetCommitRequestTopic(Message):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("partitions", [TxnOffsetCommitRequestPartition], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[TxnOffsetCommitRequestPartition] | None = None,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class TxnOffsetCommitRequest(Message):
    __slots__ = ("transactional_id", "group_id", "producer_id", "producer_epoch", "generation_id", "member_id", "group_instance_id", "topics")
    FIELDS = (
        Field("transactional_id", "string", (0, 32767), default=""),
        Field("group_id", "string", (0, 32767), default=""),
        Field("producer_id", "int64", (0, 32767), default=0),
        Field("producer_epoch", "int16", (0, 32767), default=0),
        Field("generation_id", "int32", (3, 32767), default=-1),
        Field("member_id", "string", (3, 32767), default=""),
        Field("group_instance_id", "string", (3, 32767), nullable=(3, 32767)),
        Field("topics", [TxnOffsetCommitRequestTopic], (0, 32767), default=()),
    )
    API_KEY = 28
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3
    RESPONSE = TxnOffsetCommitResponse

    def __init__(
        self,
        *,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequestTopic] | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = [] if topics is None else topics
