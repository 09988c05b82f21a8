"""Metadata: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import ZERO_UUID, Message


class MetadataResponseBroker(Message):
    __slots__ = ("node_id", "host", "port", "rack")
    FIELDS = (
        Field("node_id", "int32", (0, 32767), default=0),
        Field("host", "string", (0, 32767), default=""),
        Field("port", "int32", (0, 32767), default=0),
        Field("rack", "string", (1, 32767), nullable=(1, 32767)),
    )

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class MetadataResponsePartition(Message):
    __slots__ = ("error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "offline_replicas")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("partition_index", "int32", (0, 32767), default=0),
        Field("leader_id", "int32", (0, 32767), default=0),
        Field("leader_epoch", "int32", (7, 32767), default=-1),
        Field("replica_nodes", ["int32"], (0, 32767), default=()),
        Field("isr_nodes", ["int32"], (0, 32767), default=()),
        Field("offline_replicas", ["int32"], (5, 32767), default=()),
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
        offline_replicas: list[int] | None = None,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is None else replica_nodes
        self.isr_nodes = [] if isr_nodes is None else isr_nodes
        self.offline_replicas = [] if offline_replicas is None else offline_replicas


class MetadataResponseTopic(Message):
    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("name", "string", (0, 32767), nullable=(12, 32767), default=""),
        Field("topic_id", "uuid", (10, 32767), default=ZERO_UUID),
        Field("is_internal", "bool", (1, 32767), default=False),
        Field("partitions", [MetadataResponsePartition], (0, 32767), default=()),
        Field("topic_authorized_operations", "int32", (8, 32767), default=-2147483648),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[MetadataResponsePartition] | None = None,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is None else partitions
        self.topic_authorized_operations = topic_authorized_operations


class MetadataResponse(Message):
    __slots__ = ("throttle_time_ms", "brokers", "cluster_id", "controller_id", "topics", "cluster_authorized_operations", "error_code")
    FIELDS = (
        Field("throttle_time_ms", "int32", (3, 32767), default=0),
        Field("brokers", [MetadataResponseBroker], (0, 32767), default=()),
        Field("cluster_id", "string", (2, 32767), nullable=(2, 32767)),
        Field("controller_id", "int32", (1, 32767), default=-1),
        Field("topics", [MetadataResponseTopic], (0, 32767), default=()),
        Field("cluster_authorized_operations", "int32", (8, 10), default=-2147483648),
        Field("error_code", "int16", (13, 32767), default=0),
    )
    API_KEY = 3
    MIN_VERSION = 0
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        brokers: list[MetadataResponseBroker] | None = None,
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: list[MetadataResponseTopic] | None = None,
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = [] if brokers is None else brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = [] if topics is None else topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code


class MetadataRequestTopic(Message):
    __slots__ = ("topic_id", "name")
    FIELDS = (
        Field("topic_id", "uuid", (10, 32767), default=ZERO_UUID),
        Field("name", "string", (0, 32767), nullable=(10, 32767), default=""),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        name: str | None = "",
    ) -> None:
        self.topic_id = topic_id
        self.name = name


class MetadataRequest(Message):
    __slots__ = ("topics", "allow_auto_topic_creation", "include_cluster_authorized_operations", "include_topic_authorized_operations")
    FIELDS = (
        Field("topics", [MetadataRequestTopic], (0, 32767), nullable=(1, 32767), default=()),
        Field("allow_auto_topic_creation", "bool", (4, 32767), default=True),
        Field("include_cluster_authorized_operations", "bool", (8, 10), default=False),
        Field("include_topic_authorized_operations", "bool", (8, 32767), default=False),
    )
    API_KEY = 3
    MIN_VERSION = 0
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9
    RESPONSE = MetadataResponse

    def __init__(
        self,
        *,
        topics: list[MetadataRequestTopic] | None = None,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics = topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations
