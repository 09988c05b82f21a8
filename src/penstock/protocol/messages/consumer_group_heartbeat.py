"""ConsumerGroupHeartbeat: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import ZERO_UUID, Message


class TopicPartitions(Message):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", (0, 32767), default=ZERO_UUID),
        Field("partitions", ["int32"], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class Assignment(Message):
    __slots__ = ("topic_partitions",)
    FIELDS = (
        Field("topic_partitions", [TopicPartitions], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartitions] | None = None,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is None else topic_partitions


class ConsumerGroupHeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval_ms", "assignment")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767)),
        Field("member_id", "string", (0, 32767), nullable=(0, 32767)),
        Field("member_epoch", "int32", (0, 32767), default=0),
        Field("heartbeat_interval_ms", "int32", (0, 32767), default=0),
        Field("assignment", Assignment, (0, 32767), nullable=(0, 32767)),
    )
    API_KEY = 68
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: Assignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment


class ConsumerGroupHeartbeatRequestTopicPartitions(Message):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", (0, 32767), default=ZERO_UUID),
        Field("partitions", ["int32"], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class ConsumerGroupHeartbeatRequest(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "instance_id", "rack_id", "rebalance_timeout_ms", "subscribed_topic_names", "subscribed_topic_regex", "server_assignor", "topic_partitions")
    FIELDS = (
        Field("group_id", "string", (0, 32767), default=""),
        Field("member_id", "string", (0, 32767), default=""),
        Field("member_epoch", "int32", (0, 32767), default=0),
        Field("instance_id", "string", (0, 32767), nullable=(0, 32767)),
        Field("rack_id", "string", (0, 32767), nullable=(0, 32767)),
        Field("rebalance_timeout_ms", "int32", (0, 32767), default=-1),
        Field("subscribed_topic_names", ["string"], (0, 32767), nullable=(0, 32767)),
        Field("subscribed_topic_regex", "string", (1, 32767), nullable=(1, 32767)),
        Field("server_assignor", "string", (0, 32767), nullable=(0, 32767)),
        Field("topic_partitions", [ConsumerGroupHeartbeatRequestTopicPartitions], (0, 32767), nullable=(0, 32767)),
    )
    API_KEY = 68
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0
    RESPONSE = ConsumerGroupHeartbeatResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: list[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions
