"""Heartbeat: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class HeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code")
    FIELDS = (
        Field("throttle_time_ms", "int32", (1, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
    )
    API_KEY = 12
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


class HeartbeatRequest(Message):
    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id")
    FIELDS = (
        Field("group_id", "string", (0, 32767), default=""),
        Field("generation_id", "int32", (0, 32767), default=0),
        Field("member_id", "string", (0, 32767), default=""),
        Field("group_instance_id", "string", (3, 32767), nullable=(3, 32767)),
    )
    API_KEY = 12
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4
    RESPONSE = HeartbeatResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
