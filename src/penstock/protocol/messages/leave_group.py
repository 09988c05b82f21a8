"""LeaveGroup: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class MemberResponse(Message):
    __slots__ = ("member_id", "group_instance_id", "error_code")
    FIELDS = (
        Field("member_id", "string", (3, 32767), default=""),
        Field("group_instance_id", "string", (3, 32767), nullable=(3, 32767), default=""),
        Field("error_code", "int16", (3, 32767), default=0),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code


class LeaveGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "members")
    FIELDS = (
        Field("throttle_time_ms", "int32", (1, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("members", [MemberResponse], (3, 32767), default=()),
    )
    API_KEY = 13
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: list[MemberResponse] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = [] if members is None else members


class MemberIdentity(Message):
    __slots__ = ("member_id", "group_instance_id", "reason")
    FIELDS = (
        Field("member_id", "string", (3, 32767), default=""),
        Field("group_instance_id", "string", (3, 32767), nullable=(3, 32767)),
        Field("reason", "string", (5, 32767), nullable=(5, 32767)),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason


class LeaveGroupRequest(Message):
    __slots__ = ("group_id", "member_id", "members")
    FIELDS = (
        Field("group_id", "string", (0, 32767), default=""),
        Field("member_id", "string", (0, 2), default=""),
        Field("members", [MemberIdentity], (3, 32767), default=()),
    )
    API_KEY = 13
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4
    RESPONSE = LeaveGroupResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        members: list[MemberIdentity] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = [] if members is None else members
