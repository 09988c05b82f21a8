"""DescribeGroups: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class DescribedGroupMember(Message):
    __slots__ = ("member_id", "group_instance_id", "client_id", "client_host", "member_metadata", "member_assignment")
    FIELDS = (
        Field("member_id", "string", (0, 32767), default=""),
        Field("group_instance_id", "string", (4, 32767), nullable=(4, 32767)),
        Field("client_id", "string", (0, 32767), default=""),
        Field("client_host", "string", (0, 32767), default=""),
        Field("member_metadata", "bytes", (0, 32767), default=b""),
        Field("member_assignment", "bytes", (0, 32767), default=b""),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment


class DescribedGroup(Message):
    __slots__ = ("error_code", "error_message", "group_id", "group_state", "protocol_type", "protocol_data", "members", "authorized_operations")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (6, 32767), nullable=(6, 32767)),
        Field("group_id", "string", (0, 32767), default=""),
        Field("group_state", "string", (0, 32767), default=""),
        Field("protocol_type", "string", (0, 32767), default=""),
        Field("protocol_data", "string", (0, 32767), default=""),
        Field("members", [DescribedGroupMember], (0, 32767), default=()),
        Field("authorized_operations", "int32", (3, 32767), default=-2147483648),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: list[DescribedGroupMember] | None = None,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = [] if members is None else members
        self.authorized_operations = authorized_operations


class DescribeGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")
    FIELDS = (
        Field("throttle_time_ms", "int32", (1, 32767), default=0),
        Field("groups", [DescribedGroup], (0, 32767), default=()),
    )
    API_KEY = 15
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 5

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is None else groups


class DescribeGroupsRequest(Message):
    __slots__ = ("groups", "include_authorized_operations")
    FIELDS = (
        Field("groups", ["string"], (0, 32767), default=()),
        Field("include_authorized_operations", "bool", (3, 32767), default=False),
    )
    API_KEY = 15
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 5
    RESPONSE = DescribeGroupsResponse

    def __init__(
        self,
        *,
        groups: list[str] | None = None,
        include_authorized_operations: bool = False,
    ) -> None:
        self.groups = [] if groups is None else groups
        self.include_authorized_operations = include_authorized_operations
