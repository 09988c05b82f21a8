"""DescribeAcls: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class AclDescription(Message):
    __slots__ = ("principal", "host", "operation", "permission_type")
    FIELDS = (
        Field("principal", "string", (0, 32767), default=""),
        Field("host", "string", (0, 32767), default=""),
        Field("operation", "int8", (0, 32767), default=0),
        Field("permission_type", "int8", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DescribeAclsResource(Message):
    __slots__ = ("resource_type", "resource_name", "pattern_type", "acls")
    FIELDS = (
        Field("resource_type", "int8", (0, 32767), default=0),
        Field("resource_name", "string", (0, 32767), default=""),
        Field("pattern_type", "int8", (1, 32767), default=3),
        Field("acls", [AclDescription], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        acls: list[AclDescription] | None = None,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls = [] if acls is None else acls


class DescribeAclsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "resources")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("resources", [DescribeAclsResource], (0, 32767), default=()),
    )
    API_KEY = 29
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        resources: list[DescribeAclsResource] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = [] if resources is None else resources


class DescribeAclsRequest(Message):
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
    API_KEY = 29
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2
    RESPONSE = DescribeAclsResponse

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
