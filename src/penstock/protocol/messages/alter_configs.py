"""AlterConfigs: written by tools/write_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class AlterConfigsResourceResponse(Message):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name")
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, ""),
        ("resource_type", "int8", (0, 32767), None, None, None, 0),
        ("resource_name", "string", (0, 32767), None, None, None, ""),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


class AlterConfigsResponse(Message):
    __slots__ = ("throttle_time_ms", "responses")
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0),
        ("responses", [AlterConfigsResourceResponse], (0, 32767), None, None, None, ()),
    )
    API_KEY = 33
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[AlterConfigsResourceResponse] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is None else responses


class AlterableConfig(Message):
    __slots__ = ("name", "value")
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, ""),
        ("value", "string", (0, 32767), (0, 32767), None, None, ""),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.name = name
        self.value = value


class AlterConfigsResource(Message):
    __slots__ = ("resource_type", "resource_name", "configs")
    FIELDS = (
        ("resource_type", "int8", (0, 32767), None, None, None, 0),
        ("resource_name", "string", (0, 32767), None, None, None, ""),
        ("configs", [AlterableConfig], (0, 32767), None, None, None, ()),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[AlterableConfig] | None = None,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is None else configs


class AlterConfigsRequest(Message):
    __slots__ = ("resources", "validate_only")
    FIELDS = (
        ("resources", [AlterConfigsResource], (0, 32767), None, None, None, ()),
        ("validate_only", "bool", (0, 32767), None, None, None, False),
    )
    API_KEY = 33
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2
    RESPONSE = AlterConfigsResponse

    def __init__(
        self,
        *,
        resources: list[AlterConfigsResource] | None = None,
        validate_only: bool = False,
    ) -> None:
        self.resources = [] if resources is None else resources
        self.validate_only = validate_only
