"""CreateTopics: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import ZERO_UUID, Message


class CreatableTopicConfigs(Message):
    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive")
    FIELDS = (
        Field("name", "string", (5, 32767), default=""),
        Field("value", "string", (5, 32767), nullable=(5, 32767), default=""),
        Field("read_only", "bool", (5, 32767), default=False),
        Field("config_source", "int8", (5, 32767), default=-1),
        Field("is_sensitive", "bool", (5, 32767), default=False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive


class CreatableTopicResult(Message):
    __slots__ = ("name", "topic_id", "error_code", "error_message", "topic_config_error_code", "num_partitions", "replication_factor", "configs")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("topic_id", "uuid", (7, 32767), default=ZERO_UUID),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (1, 32767), nullable=(0, 32767), default=""),
        Field("topic_config_error_code", "int16", (5, 32767), tag=0, tagged=(5, 32767), default=0),
        Field("num_partitions", "int32", (5, 32767), default=-1),
        Field("replication_factor", "int16", (5, 32767), default=-1),
        Field("configs", [CreatableTopicConfigs], (5, 32767), nullable=(5, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = "",
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: list[CreatableTopicConfigs] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs = configs


class CreateTopicsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    FIELDS = (
        Field("throttle_time_ms", "int32", (2, 32767), default=0),
        Field("topics", [CreatableTopicResult], (0, 32767), default=()),
    )
    API_KEY = 19
    MIN_VERSION = 2
    MAX_VERSION = 7
    FLEXIBLE_FROM = 5

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[CreatableTopicResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics


class CreatableReplicaAssignment(Message):
    __slots__ = ("partition_index", "broker_ids")
    FIELDS = (
        Field("partition_index", "int32", (0, 32767), default=0),
        Field("broker_ids", ["int32"], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        broker_ids: list[int] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.broker_ids = [] if broker_ids is None else broker_ids


class CreatableTopicConfig(Message):
    __slots__ = ("name", "value")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("value", "string", (0, 32767), nullable=(0, 32767), default=""),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.name = name
        self.value = value


class CreatableTopic(Message):
    __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("num_partitions", "int32", (0, 32767), default=0),
        Field("replication_factor", "int16", (0, 32767), default=0),
        Field("assignments", [CreatableReplicaAssignment], (0, 32767), default=()),
        Field("configs", [CreatableTopicConfig], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: list[CreatableReplicaAssignment] | None = None,
        configs: list[CreatableTopicConfig] | None = None,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = [] if assignments is None else assignments
        self.configs = [] if configs is None else configs


class CreateTopicsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "validate_only")
    FIELDS = (
        Field("topics", [CreatableTopic], (0, 32767), default=()),
        Field("timeout_ms", "int32", (0, 32767), default=60000),
        Field("validate_only", "bool", (1, 32767), default=False),
    )
    API_KEY = 19
    MIN_VERSION = 2
    MAX_VERSION = 7
    FLEXIBLE_FROM = 5
    RESPONSE = CreateTopicsResponse

    def __init__(
        self,
        *,
        topics: list[CreatableTopic] | None = None,
        timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics = [] if topics is None else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only
