"""CreateAcls: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class AclCreationResult(Message):
    __slots__ = ("error_code", "error_message")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767), default=""),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message


class CreateAclsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("results", [AclCreationResult], (0, 32767), default=()),
    )
    API_KEY = 30
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AclCreationResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results


class AclCreation(Message):
    __slots__ = ("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
    FIELDS = (
        Field("resource_type", "int8", (0, 32767), default=0),
        Field("resource_name", "string", (0, 32767), default=""),
        Field("resource_pattern_type", "int8", (1, 32767), default=3),
        Field("principal", "string", (0, 32767), default=""),
        Field("host", "string", (0, 32767), default=""),
        Field("operation", "int8", (0, 32767), default=0),
        Field("permission_type", "int8", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class CreateAclsRequest(Message):
    __slots__ = ("creations",)
    FIELDS = (
        Field("creations", [AclCreation], (0, 32767), default=()),
    )
    API_KEY = 30
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2
    RESPONSE = CreateAclsResponse

    def __init__(
        self,
        *,
        creations: list[AclCreation] | None = None,
    ) -> None:
        self.creations = [] if creations is None else creations
