"""ListConfigResources: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class ConfigResource(Message):
    __slots__ = ("resource_name", "resource_type")
    FIELDS = (
        Field("resource_name", "string", (0, 32767), default=""),
        Field("resource_type", "int8", (1, 32767), default=16),
    )

    def __init__(
        self,
        *,
        resource_name: str = "",
        resource_type: int = 16,
    ) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type


class ListConfigResourcesResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "config_resources")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("config_resources", [ConfigResource], (0, 32767), default=()),
    )
    API_KEY = 74
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: list[ConfigResource] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = [] if config_resources is None else config_resources


class ListConfigResourcesRequest(Message):
    __slots__ = ("resource_types",)
    FIELDS = (
        Field("resource_types", ["int8"], (1, 32767), default=()),
    )
    API_KEY = 74
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0
    RESPONSE = ListConfigResourcesResponse

    def __init__(
        self,
        *,
        resource_types: list[int] | None = None,
    ) -> None:
        self.resource_types = [] if resource_types is None else resource_types
