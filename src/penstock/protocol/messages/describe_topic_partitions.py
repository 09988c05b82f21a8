"""DescribeTopicPartitions: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import ZERO_UUID, Message


class DescribeTopicPartitionsResponsePartition(Message):
    __slots__ = ("error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "eligible_leader_replicas", "last_known_elr", "offline_replicas")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("partition_index", "int32", (0, 32767), default=0),
        Field("leader_id", "int32", (0, 32767), default=0),
        Field("leader_epoch", "int32", (0, 32767), default=-1),
        Field("replica_nodes", ["int32"], (0, 32767), default=()),
        Field("isr_nodes", ["int32"], (0, 32767), default=()),
        Field("eligible_leader_replicas", ["int32"], (0, 32767), nullable=(0, 32767)),
        Field("last_known_elr", ["int32"], (0, 32767), nullable=(0, 32767)),
        Field("offline_replicas", ["int32"], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] | None = None,
        isr_nodes: list[int] | None = None,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        offline_replicas: list[int] | None = None,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is None else replica_nodes
        self.isr_nodes = [] if isr_nodes is None else isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas = [] if offline_replicas is None else offline_replicas


class DescribeTopicPartitionsResponseTopic(Message):
    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("name", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("topic_id", "uuid", (0, 32767), default=ZERO_UUID),
        Field("is_internal", "bool", (0, 32767), default=False),
        Field("partitions", [DescribeTopicPartitionsResponsePartition], (0, 32767), default=()),
        Field("topic_authorized_operations", "int32", (0, 32767), default=-2147483648),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[DescribeTopicPartitionsResponsePartition] | None = None,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is None else partitions
        self.topic_authorized_operations = topic_authorized_operations


class Cursor(Message):
    __slots__ = ("topic_name", "partition_index")
    FIELDS = (
        Field("topic_name", "string", (0, 32767), default=""),
        Field("partition_index", "int32", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "next_cursor")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("topics", [DescribeTopicPartitionsResponseTopic], (0, 32767), default=()),
        Field("next_cursor", Cursor, (0, 32767), nullable=(0, 32767)),
    )
    API_KEY = 75
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponseTopic] | None = None,
        next_cursor: Cursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics
        self.next_cursor = next_cursor


class TopicRequest(Message):
    __slots__ = ("name",)
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
    )

    def __init__(
        self,
        *,
        name: str = "",
    ) -> None:
        self.name = name


class DescribeTopicPartitionsRequestCursor(Message):
    __slots__ = ("topic_name", "partition_index")
    FIELDS = (
        Field("topic_name", "string", (0, 32767), default=""),
        Field("partition_index", "int32", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsRequest(Message):
    __slots__ = ("topics", "response_partition_limit", "cursor")
    FIELDS = (
        Field("topics", [TopicRequest], (0, 32767), default=()),
        Field("response_partition_limit", "int32", (0, 32767), default=2000),
        Field("cursor", DescribeTopicPartitionsRequestCursor, (0, 32767), nullable=(0, 32767)),
    )
    API_KEY = 75
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = DescribeTopicPartitionsResponse

    def __init__(
        self,
        *,
        topics: list[TopicRequest] | None = None,
        response_partition_limit: int = 2000,
        cursor: DescribeTopicPartitionsRequestCursor | None = None,
    ) -> None:
        self.topics = [] if topics is None else topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor
