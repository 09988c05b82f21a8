"""GroupMetadataValue: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class MemberMetadata(Message):
    __slots__ = ("member_id", "group_instance_id", "client_id", "client_host", "rebalance_timeout", "session_timeout", "subscription", "assignment")
    FIELDS = (
        Field("member_id", "string", (0, 32767), default=""),
        Field("group_instance_id", "string", (3, 32767), nullable=(3, 32767)),
        Field("client_id", "string", (0, 32767), default=""),
        Field("client_host", "string", (0, 32767), default=""),
        Field("rebalance_timeout", "int32", (1, 32767), default=-1),
        Field("session_timeout", "int32", (0, 32767), default=0),
        Field("subscription", "bytes", (0, 32767), default=b""),
        Field("assignment", "bytes", (0, 32767), default=b""),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout: int = -1,
        session_timeout: int = 0,
        subscription: bytes = b"",
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout = rebalance_timeout
        self.session_timeout = session_timeout
        self.subscription = subscription
        self.assignment = assignment


class GroupMetadataValue(Message):
    __slots__ = ("protocol_type", "generation", "protocol", "leader", "current_state_timestamp", "members")
    FIELDS = (
        Field("protocol_type", "string", (0, 32767), default=""),
        Field("generation", "int32", (0, 32767), default=0),
        Field("protocol", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("leader", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("current_state_timestamp", "int64", (2, 32767), default=-1),
        Field("members", [MemberMetadata], (0, 32767), default=()),
    )
    API_KEY = 2
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        protocol_type: str = "",
        generation: int = 0,
        protocol: str | None = "",
        leader: str | None = "",
        current_state_timestamp: int = -1,
        members: list[MemberMetadata] | None = None,
    ) -> None:
        self.protocol_type = protocol_type
        self.generation = generation
        self.protocol = protocol
        self.leader = leader
        self.current_state_timestamp = current_state_timestamp
        self.members = [] if members is None else members
