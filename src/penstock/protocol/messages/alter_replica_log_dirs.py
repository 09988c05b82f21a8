"""AlterReplicaLogDirs: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class AlterReplicaLogDirPartitionResult(Message):
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


class AlterReplicaLogDirTopicResult(Message):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        Field("topic_name", "string", (0, 32767), default=""),
        Field("partitions", [AlterReplicaLogDirPartitionResult], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[AlterReplicaLogDirPartitionResult] | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is None else partitions


class AlterReplicaLogDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("results", [AlterReplicaLogDirTopicResult], (0, 32767), default=()),
    )
    API_KEY = 34
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterReplicaLogDirTopicResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results


class AlterReplicaLogDirTopic(Message):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("partitions", ["int32"], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class AlterReplicaLogDir(Message):
    __slots__ = ("path", "topics")
    FIELDS = (
        Field("path", "string", (0, 32767), default=""),
        Field("topics", [AlterReplicaLogDirTopic], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        path: str = "",
        topics: list[AlterReplicaLogDirTopic] | None = None,
    ) -> None:
        self.path = path
        self.topics = [] if topics is None else topics


class AlterReplicaLogDirsRequest(Message):
    __slots__ = ("dirs",)
    FIELDS = (
        Field("dirs", [AlterReplicaLogDir], (0, 32767), default=()),
    )
    API_KEY = 34
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2
    RESPONSE = AlterReplicaLogDirsResponse

    def __init__(
        self,
        *,
        dirs: list[AlterReplicaLogDir] | None = None,
    ) -> None:
        self.dirs = [] if dirs is None else dirs
