"""AlterConfigs: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class AlterConfigsResourceResponse(Message):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("resource_type", "int8", (0, 32767), default=0),
        Field("resource_name", "string", (0, 32767), default=""),
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
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("responses", [AlterConfigsResourceResponse], (0, 32767), default=()),
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
        Field("name", "string", (0, 32767), default=""),
        Field("value", "string", (0, 32767), nullable=(0, 32767), default=""),
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
        Field("resource_type", "int8", (0, 32767), default=0),
        Field("resource_name", "string", (0, 32767), default=""),
        Field("configs", [AlterableConfig], (0, 32767), default=()),
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
        Field("resources", [AlterConfigsResource], (0, 32767), default=()),
        Field("validate_only", "bool", (0, 32767), default=False),
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
