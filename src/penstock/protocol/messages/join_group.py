"""JoinGroup: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class JoinGroupResponseMember(Message):
    __slots__ = ("member_id", "group_instance_id", "metadata")
    FIELDS = (
        Field("member_id", "string", (0, 32767), default=""),
        Field("group_instance_id", "string", (5, 32767), nullable=(5, 32767)),
        Field("metadata", "bytes", (0, 32767), default=b""),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        metadata: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata


class JoinGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "generation_id", "protocol_type", "protocol_name", "leader", "skip_assignment", "member_id", "members")
    FIELDS = (
        Field("throttle_time_ms", "int32", (2, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("generation_id", "int32", (0, 32767), default=-1),
        Field("protocol_type", "string", (7, 32767), nullable=(7, 32767)),
        Field("protocol_name", "string", (0, 32767), nullable=(7, 32767), default=""),
        Field("leader", "string", (0, 32767), default=""),
        Field("skip_assignment", "bool", (9, 32767), default=False),
        Field("member_id", "string", (0, 32767), default=""),
        Field("members", [JoinGroupResponseMember], (0, 32767), default=()),
    )
    API_KEY = 11
    MIN_VERSION = 0
    MAX_VERSION = 9
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: list[JoinGroupResponseMember] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = [] if members is None else members


class JoinGroupRequestProtocol(Message):
    __slots__ = ("name", "metadata")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("metadata", "bytes", (0, 32767), default=b""),
    )

    def __init__(
        self,
        *,
        name: str = "",
        metadata: bytes = b"",
    ) -> None:
        self.name = name
        self.metadata = metadata


class JoinGroupRequest(Message):
    __slots__ = ("group_id", "session_timeout_ms", "rebalance_timeout_ms", "member_id", "group_instance_id", "protocol_type", "protocols", "reason")
    FIELDS = (
        Field("group_id", "string", (0, 32767), default=""),
        Field("session_timeout_ms", "int32", (0, 32767), default=0),
        Field("rebalance_timeout_ms", "int32", (1, 32767), default=-1),
        Field("member_id", "string", (0, 32767), default=""),
        Field("group_instance_id", "string", (5, 32767), nullable=(5, 32767)),
        Field("protocol_type", "string", (0, 32767), default=""),
        Field("protocols", [JoinGroupRequestProtocol], (0, 32767), default=()),
        Field("reason", "string", (8, 32767), nullable=(8, 32767)),
    )
    API_KEY = 11
    MIN_VERSION = 0
    MAX_VERSION = 9
    FLEXIBLE_FROM = 6
    RESPONSE = JoinGroupResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupRequestProtocol] | None = None,
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = [] if protocols is None else protocols
        self.reason = reason
