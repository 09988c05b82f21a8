"""SyncGroup: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class SyncGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment")
    FIELDS = (
        Field("throttle_time_ms", "int32", (1, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("protocol_type", "string", (5, 32767), nullable=(5, 32767)),
        Field("protocol_name", "string", (5, 32767), nullable=(5, 32767)),
        Field("assignment", "bytes", (0, 32767), default=b""),
    )
    API_KEY = 14
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: bytes = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment


class SyncGroupRequestAssignment(Message):
    __slots__ = ("member_id", "assignment")
    FIELDS = (
        Field("member_id", "string", (0, 32767), default=""),
        Field("assignment", "bytes", (0, 32767), default=b""),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.assignment = assignment


class SyncGroupRequest(Message):
    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id", "protocol_type", "protocol_name", "assignments")
    FIELDS = (
        Field("group_id", "string", (0, 32767), default=""),
        Field("generation_id", "int32", (0, 32767), default=0),
        Field("member_id", "string", (0, 32767), default=""),
        Field("group_instance_id", "string", (3, 32767), nullable=(3, 32767)),
        Field("protocol_type", "string", (5, 32767), nullable=(5, 32767)),
        Field("protocol_name", "string", (5, 32767), nullable=(5, 32767)),
        Field("assignments", [SyncGroupRequestAssignment], (0, 32767), default=()),
    )
    API_KEY = 14
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4
    RESPONSE = SyncGroupResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequestAssignment] | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = [] if assignments is None else assignments
