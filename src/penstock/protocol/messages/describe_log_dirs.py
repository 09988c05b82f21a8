"""DescribeLogDirs: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class DescribeLogDirsPartition(Message):
    __slots__ = ("partition_index", "partition_size", "offset_lag", "is_future_key")
    FIELDS = (
        Field("partition_index", "int32", (0, 32767), default=0),
        Field("partition_size", "int64", (0, 32767), default=0),
        Field("offset_lag", "int64", (0, 32767), default=0),
        Field("is_future_key", "bool", (0, 32767), default=False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key


class DescribeLogDirsTopic(Message):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("partitions", [DescribeLogDirsPartition], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DescribeLogDirsPartition] | None = None,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class DescribeLogDirsResult(Message):
    __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "is_cordoned")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("log_dir", "string", (0, 32767), default=""),
        Field("topics", [DescribeLogDirsTopic], (0, 32767), default=()),
        Field("total_bytes", "int64", (4, 32767), default=-1),
        Field("usable_bytes", "int64", (4, 32767), default=-1),
        Field("is_cordoned", "bool", (5, 32767), default=False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        log_dir: str = "",
        topics: list[DescribeLogDirsTopic] | None = None,
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics = [] if topics is None else topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned


class DescribeLogDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "results")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (3, 32767), default=0),
        Field("results", [DescribeLogDirsResult], (0, 32767), default=()),
    )
    API_KEY = 35
    MIN_VERSION = 1
    MAX_VERSION = 5
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: list[DescribeLogDirsResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = [] if results is None else results


class DescribableLogDirTopic(Message):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        Field("topic", "string", (0, 32767), default=""),
        Field("partitions", ["int32"], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class DescribeLogDirsRequest(Message):
    __slots__ = ("topics",)
    FIELDS = (
        Field("topics", [DescribableLogDirTopic], (0, 32767), nullable=(0, 32767), default=()),
    )
    API_KEY = 35
    MIN_VERSION = 1
    MAX_VERSION = 5
    FLEXIBLE_FROM = 2
    RESPONSE = DescribeLogDirsResponse

    def __init__(
        self,
        *,
        topics: list[DescribableLogDirTopic] | None = None,
    ) -> None:
        self.topics = topics
