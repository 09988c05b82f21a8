"""AssignReplicasToDirs: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import ZERO_UUID, Message


class PartitionData(Message):
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


class TopicData(Message):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", (0, 32767), default=ZERO_UUID),
        Field("partitions", [PartitionData], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class DirectoryData(Message):
    __slots__ = ("id", "topics")
    FIELDS = (
        Field("id", "uuid", (0, 32767), default=ZERO_UUID),
        Field("topics", [TopicData], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        id: bytes = ZERO_UUID,
        topics: list[TopicData] | None = None,
    ) -> None:
        self.id = id
        self.topics = [] if topics is None else topics


class AssignReplicasToDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "directories")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("directories", [DirectoryData], (0, 32767), default=()),
    )
    API_KEY = 73
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        directories: list[DirectoryData] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.directories = [] if directories is None else directories


class AssignReplicasToDirsRequestPartitionData(Message):
    __slots__ = ("partition_index",)
    FIELDS = (
        Field("partition_index", "int32", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class AssignReplicasToDirsRequestTopicData(Message):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", (0, 32767), default=ZERO_UUID),
        Field("partitions", [AssignReplicasToDirsRequestPartitionData], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[AssignReplicasToDirsRequestPartitionData] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class AssignReplicasToDirsRequestDirectoryData(Message):
    __slots__ = ("id", "topics")
    FIELDS = (
        Field("id", "uuid", (0, 32767), default=ZERO_UUID),
        Field("topics", [AssignReplicasToDirsRequestTopicData], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        id: bytes = ZERO_UUID,
        topics: list[AssignReplicasToDirsRequestTopicData] | None = None,
    ) -> None:
        self.id = id
        self.topics = [] if topics is None else topics


class AssignReplicasToDirsRequest(Message):
    __slots__ = ("broker_id", "broker_epoch", "directories")
    FIELDS = (
        Field("broker_id", "int32", (0, 32767), default=0),
        Field("broker_epoch", "int64", (0, 32767), default=-1),
        Field("directories", [AssignReplicasToDirsRequestDirectoryData], (0, 32767), default=()),
    )
    API_KEY = 73
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = AssignReplicasToDirsResponse

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        directories: list[AssignReplicasToDirsRequestDirectoryData] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.directories = [] if directories is None else directories
