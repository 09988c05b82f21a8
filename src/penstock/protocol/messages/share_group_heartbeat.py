"""ShareGroupHeartbeat: written by tools/write_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.message import ZERO_UUID, Message


class TopicPartitions(Message):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID),
        ("partitions", ["int32"], (0, 32767), None, None, None, ()),
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
        ("topic_partitions", [TopicPartitions], (0, 32767), None, None, None, ()),
    )

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartitions] | None = None,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is None else topic_partitions


class ShareGroupHeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval_ms", "assignment")
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0),
        ("error_code", "int16", (0, 32767), None, None, None, 0),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None),
        ("member_id", "string", (0, 32767), (0, 32767), None, None, None),
        ("member_epoch", "int32", (0, 32767), None, None, None, 0),
        ("heartbeat_interval_ms", "int32", (0, 32767), None, None, None, 0),
        ("assignment", Assignment, (0, 32767), (0, 32767), None, None, None),
    )
    API_KEY = 76
    MIN_VERSION = 1
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


class ShareGroupHeartbeatRequest(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "rack_id", "subscribed_topic_names")
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, ""),
        ("member_id", "string", (0, 32767), None, None, None, ""),
        ("member_epoch", "int32", (0, 32767), None, None, None, 0),
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, None),
        ("subscribed_topic_names", ["string"], (0, 32767), (0, 32767), None, None, None),
    )
    API_KEY = 76
    MIN_VERSION = 1
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0
    RESPONSE = ShareGroupHeartbeatResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        rack_id: str | None = None,
        subscribed_topic_names: list[str] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.rack_id = rack_id
        self.subscribed_topic_names = subscribed_topic_names
