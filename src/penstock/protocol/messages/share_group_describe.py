"""ShareGroupDescribe: written by tools/write_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.message import ZERO_UUID, Message


class TopicPartitions(Message):
    __slots__ = ("topic_id", "topic_name", "partitions")
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID),
        ("topic_name", "string", (0, 32767), None, None, None, ""),
        ("partitions", ["int32"], (0, 32767), None, None, None, ()),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
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


class Member(Message):
    __slots__ = ("member_id", "rack_id", "member_epoch", "client_id", "client_host", "subscribed_topic_names", "assignment")
    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, None, ""),
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, None),
        ("member_epoch", "int32", (0, 32767), None, None, None, 0),
        ("client_id", "string", (0, 32767), None, None, None, ""),
        ("client_host", "string", (0, 32767), None, None, None, ""),
        ("subscribed_topic_names", ["string"], (0, 32767), None, None, None, ()),
        ("assignment", Assignment, (0, 32767), None, None, None, None),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] | None = None,
        assignment: Assignment | None = None,
    ) -> None:
        self.member_id = member_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is None else subscribed_topic_names
        self.assignment = assignment


class DescribedGroup(Message):
    __slots__ = ("error_code", "error_message", "group_id", "group_state", "group_epoch", "assignment_epoch", "assignor_name", "members", "authorized_operations")
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None),
        ("group_id", "string", (0, 32767), None, None, None, ""),
        ("group_state", "string", (0, 32767), None, None, None, ""),
        ("group_epoch", "int32", (0, 32767), None, None, None, 0),
        ("assignment_epoch", "int32", (0, 32767), None, None, None, 0),
        ("assignor_name", "string", (0, 32767), None, None, None, ""),
        ("members", [Member], (0, 32767), None, None, None, ()),
        ("authorized_operations", "int32", (0, 32767), None, None, None, -2147483648),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: list[Member] | None = None,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members = [] if members is None else members
        self.authorized_operations = authorized_operations


class ShareGroupDescribeResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0),
        ("groups", [DescribedGroup], (0, 32767), None, None, None, ()),
    )
    API_KEY = 77
    MIN_VERSION = 1
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is None else groups


class ShareGroupDescribeRequest(Message):
    __slots__ = ("group_ids", "include_authorized_operations")
    FIELDS = (
        ("group_ids", ["string"], (0, 32767), None, None, None, ()),
        ("include_authorized_operations", "bool", (0, 32767), None, None, None, False),
    )
    API_KEY = 77
    MIN_VERSION = 1
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0
    RESPONSE = ShareGroupDescribeResponse

    def __init__(
        self,
        *,
        group_ids: list[str] | None = None,
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids = [] if group_ids is None else group_ids
        self.include_authorized_operations = include_authorized_operations
