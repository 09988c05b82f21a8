"""DescribeClientQuotas: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class EntityData(Message):
    __slots__ = ("entity_type", "entity_name")
    FIELDS = (
        Field("entity_type", "string", (0, 32767), default=""),
        Field("entity_name", "string", (0, 32767), nullable=(0, 32767), default=""),
    )

    def __init__(
        self,
        *,
        entity_type: str = "",
        entity_name: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ValueData(Message):
    __slots__ = ("key", "value")
    FIELDS = (
        Field("key", "string", (0, 32767), default=""),
        Field("value", "float64", (0, 32767), default=0.0),
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
    ) -> None:
        self.key = key
        self.value = value


class EntryData(Message):
    __slots__ = ("entity", "values")
    FIELDS = (
        Field("entity", [EntityData], (0, 32767), default=()),
        Field("values", [ValueData], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        entity: list[EntityData] | None = None,
        values: list[ValueData] | None = None,
    ) -> None:
        self.entity = [] if entity is None else entity
        self.values = [] if values is None else values


class DescribeClientQuotasResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("entries", [EntryData], (0, 32767), nullable=(0, 32767), default=()),
    )
    API_KEY = 48
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: list[EntryData] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = entries


class ComponentData(Message):
    __slots__ = ("entity_type", "match_type", "match")
    FIELDS = (
        Field("entity_type", "string", (0, 32767), default=""),
        Field("match_type", "int8", (0, 32767), default=0),
        Field("match", "string", (0, 32767), nullable=(0, 32767), default=""),
    )

    def __init__(
        self,
        *,
        entity_type: str = "",
        match_type: int = 0,
        match: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match


class DescribeClientQuotasRequest(Message):
    __slots__ = ("components", "strict")
    FIELDS = (
        Field("components", [ComponentData], (0, 32767), default=()),
        Field("strict", "bool", (0, 32767), default=False),
    )
    API_KEY = 48
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1
    RESPONSE = DescribeClientQuotasResponse

    def __init__(
        self,
        *,
        components: list[ComponentData] | None = None,
        strict: bool = False,
    ) -> None:
        self.components = [] if components is None else components
        self.strict = strict
