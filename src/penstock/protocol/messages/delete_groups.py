"""DeleteGroups: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class DeletableGroupResult(Message):
    __slots__ = ("group_id", "error_code")
    FIELDS = (
        Field("group_id", "string", (0, 32767), default=""),
        Field("error_code", "int16", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.error_code = error_code


class DeleteGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("results", [DeletableGroupResult], (0, 32767), default=()),
    )
    API_KEY = 42
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DeletableGroupResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results


class DeleteGroupsRequest(Message):
    __slots__ = ("groups_names",)
    FIELDS = (
        Field("groups_names", ["string"], (0, 32767), default=()),
    )
    API_KEY = 42
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2
    RESPONSE = DeleteGroupsResponse

    def __init__(
        self,
        *,
        groups_names: list[str] | None = None,
    ) -> None:
        self.groups_names = [] if groups_names is None else groups_names
