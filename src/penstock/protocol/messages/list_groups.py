"""ListGroups: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class ListedGroup(Message):
    __slots__ = ("group_id", "protocol_type", "group_state", "group_type")
    FIELDS = (
        Field("group_id", "string", (0, 32767), default=""),
        Field("protocol_type", "string", (0, 32767), default=""),
        Field("group_state", "string", (4, 32767), default=""),
        Field("group_type", "string", (5, 32767), default=""),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",
        group_type: str = "",
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type


class ListGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "groups")
    FIELDS = (
        Field("throttle_time_ms", "int32", (1, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("groups", [ListedGroup], (0, 32767), default=()),
    )
    API_KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: list[ListedGroup] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = [] if groups is None else groups


class ListGroupsRequest(Message):
    __slots__ = ("states_filter", "types_filter")
    FIELDS = (
        Field("states_filter", ["string"], (4, 32767), default=()),
        Field("types_filter", ["string"], (5, 32767), default=()),
    )
    API_KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3
    RESPONSE = ListGroupsResponse

    def __init__(
        self,
        *,
        states_filter: list[str] | None = None,
        types_filter: list[str] | None = None,
    ) -> None:
        self.states_filter = [] if states_filter is None else states_filter
        self.types_filter = [] if types_filter is None else types_filter
