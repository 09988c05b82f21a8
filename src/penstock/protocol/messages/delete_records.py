"""DeleteRecords: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class DeleteRecordsPartitionResult(Message):
    __slots__ = ("partition_index", "low_watermark", "error_code")
    FIELDS = (
        Field("partition_index", "int32", (0, 32767), default=0),
        Field("low_watermark", "int64", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        low_watermark: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code


class DeleteRecordsTopicResult(Message):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("partitions", [DeleteRecordsPartitionResult], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsPartitionResult] | None = None,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class DeleteRecordsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("topics", [DeleteRecordsTopicResult], (0, 32767), default=()),
    )
    API_KEY = 21
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DeleteRecordsTopicResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics


class DeleteRecordsPartition(Message):
    __slots__ = ("partition_index", "offset")
    FIELDS = (
        Field("partition_index", "int32", (0, 32767), default=0),
        Field("offset", "int64", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.offset = offset


class DeleteRecordsTopic(Message):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("partitions", [DeleteRecordsPartition], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsPartition] | None = None,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class DeleteRecordsRequest(Message):
    __slots__ = ("topics", "timeout_ms")
    FIELDS = (
        Field("topics", [DeleteRecordsTopic], (0, 32767), default=()),
        Field("timeout_ms", "int32", (0, 32767), default=0),
    )
    API_KEY = 21
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2
    RESPONSE = DeleteRecordsResponse

    def __init__(
        self,
        *,
        topics: list[DeleteRecordsTopic] | None = None,
        timeout_ms: int = 0,
    ) -> None:
        self.topics = [] if topics is None else topics
        self.timeout_ms = timeout_ms
