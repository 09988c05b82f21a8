"""GroupMetadataValue: written by tools/write_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class MemberMetadata(Message):
    __slots__ = ("member_id", "group_instance_id", "client_id", "client_host", "rebalance_timeout", "session_timeout", "subscription", "assignment")
    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, None, ""),
        ("group_instance_id", "string", (3, 32767), (3, 32767), None, None, None),
        ("client_id", "string", (0, 32767), None, None, None, ""),
        ("client_host", "string", (0, 32767), None, None, None, ""),
        ("rebalance_timeout", "int32", (1, 32767), None, None, None, -1),
        ("session_timeout", "int32", (0, 32767), None, None, None, 0),
        ("subscription", "bytes", (0, 32767), None, None, None, b""),
        ("assignment", "bytes", (0, 32767), None, None, None, b""),
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
        ("protocol_type", "string", (0, 32767), None, None, None, ""),
        ("generation", "int32", (0, 32767), None, None, None, 0),
        ("protocol", "string", (0, 32767), (0, 32767), None, None, ""),
        ("leader", "string", (0, 32767), (0, 32767), None, None, ""),
        ("current_state_timestamp", "int64", (2, 32767), None, None, None, -1),
        ("members", [MemberMetadata], (0, 32767), None, None, None, ()),
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
