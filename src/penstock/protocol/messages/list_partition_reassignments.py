"""ListPartitionReassignments: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class OngoingPartitionReassignment(Message):
    __slots__ = ("partition_index", "replicas", "adding_replicas", "removing_replicas")
    FIELDS = (
        Field("partition_index", "int32", (0, 32767), default=0),
        Field("replicas", ["int32"], (0, 32767), default=()),
        Field("adding_replicas", ["int32"], (0, 32767), default=()),
        Field("removing_replicas", ["int32"], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: list[int] | None = None,
        adding_replicas: list[int] | None = None,
        removing_replicas: list[int] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = [] if replicas is None else replicas
        self.adding_replicas = [] if adding_replicas is None else adding_replicas
        self.removing_replicas = [] if removing_replicas is None else removing_replicas


class OngoingTopicReassignment(Message):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("partitions", [OngoingPartitionReassignment], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OngoingPartitionReassignment] | None = None,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class ListPartitionReassignmentsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "topics")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("topics", [OngoingTopicReassignment], (0, 32767), default=()),
    )
    API_KEY = 46
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[OngoingTopicReassignment] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is None else topics


class ListPartitionReassignmentsTopics(Message):
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


class ListPartitionReassignmentsRequest(Message):
    __slots__ = ("timeout_ms", "topics")
    FIELDS = (
        Field("timeout_ms", "int32", (0, 32767), default=60000),
        Field("topics", [ListPartitionReassignmentsTopics], (0, 32767), nullable=(0, 32767)),
    )
    API_KEY = 46
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = ListPartitionReassignmentsResponse

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        topics: list[ListPartitionReassignmentsTopics] | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics
