"""DescribeProducers: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class ProducerState(Message):
    __slots__ = ("producer_id", "producer_epoch", "last_sequence", "last_timestamp", "coordinator_epoch", "current_txn_start_offset")
    FIELDS = (
        Field("producer_id", "int64", (0, 32767), default=0),
        Field("producer_epoch", "int32", (0, 32767), default=0),
        Field("last_sequence", "int32", (0, 32767), default=-1),
        Field("last_timestamp", "int64", (0, 32767), default=-1),
        Field("coordinator_epoch", "int32", (0, 32767), default=0),
        Field("current_txn_start_offset", "int64", (0, 32767), default=-1),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset


class PartitionResponse(Message):
    __slots__ = ("partition_index", "error_code", "error_message", "active_producers")
    FIELDS = (
        Field("partition_index", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767)),
        Field("active_producers", [ProducerState], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: list[ProducerState] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers = [] if active_producers is None else active_producers


class TopicResponse(Message):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("partitions", [PartitionResponse], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[PartitionResponse] | None = None,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class DescribeProducersResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("topics", [TopicResponse], (0, 32767), default=()),
    )
    API_KEY = 61
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[TopicResponse] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics


class TopicRequest(Message):
    __slots__ = ("name", "partition_indexes")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("partition_indexes", ["int32"], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] | None = None,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is None else partition_indexes


class DescribeProducersRequest(Message):
    __slots__ = ("topics",)
    FIELDS = (
        Field("topics", [TopicRequest], (0, 32767), default=()),
    )
    API_KEY = 61
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = DescribeProducersResponse

    def __init__(
        self,
        *,
        topics: list[TopicRequest] | None = None,
    ) -> None:
        self.topics = [] if topics is None else topics
