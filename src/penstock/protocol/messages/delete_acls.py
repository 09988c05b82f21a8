"""DeleteAcls: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class DeleteAclsMatchingAcl(Message):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("resource_type", "int8", (0, 32767), default=0),
        Field("resource_name", "string", (0, 32767), default=""),
        Field("pattern_type", "int8", (1, 32767), default=3),
        Field("principal", "string", (0, 32767), default=""),
        Field("host", "string", (0, 32767), default=""),
        Field("operation", "int8", (0, 32767), default=0),
        Field("permission_type", "int8", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsFilterResult(Message):
    __slots__ = ("error_code", "error_message", "matching_acls")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("matching_acls", [DeleteAclsMatchingAcl], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        matching_acls: list[DeleteAclsMatchingAcl] | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls = [] if matching_acls is None else matching_acls


class DeleteAclsResponse(Message):
    __slots__ = ("throttle_time_ms", "filter_results")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("filter_results", [DeleteAclsFilterResult], (0, 32767), default=()),
    )
    API_KEY = 31
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        filter_results: list[DeleteAclsFilterResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = [] if filter_results is None else filter_results


class DeleteAclsFilter(Message):
    __slots__ = ("resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter", "host_filter", "operation", "permission_type")
    FIELDS = (
        Field("resource_type_filter", "int8", (0, 32767), default=0),
        Field("resource_name_filter", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("pattern_type_filter", "int8", (1, 32767), default=3),
        Field("principal_filter", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("host_filter", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("operation", "int8", (0, 32767), default=0),
        Field("permission_type", "int8", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsRequest(Message):
    __slots__ = ("filters",)
    FIELDS = (
        Field("filters", [DeleteAclsFilter], (0, 32767), default=()),
    )
    API_KEY = 31
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2
    RESPONSE = DeleteAclsResponse

    def __init__(
        self,
        *,
        filters: list[DeleteAclsFilter] | None = None,
    ) -> None:
        self.filters = [] if filters is None else filters
