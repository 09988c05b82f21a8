"""AlterClientQuotas: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

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


class EntryData(Message):
    __slots__ = ("error_code", "error_message", "entity")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("entity", [EntityData], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        entity: list[EntityData] | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = [] if entity is None else entity


class AlterClientQuotasResponse(Message):
    __slots__ = ("throttle_time_ms", "entries")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("entries", [EntryData], (0, 32767), default=()),
    )
    API_KEY = 49
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        entries: list[EntryData] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = [] if entries is None else entries


class AlterClientQuotasRequestEntityData(Message):
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


class OpData(Message):
    __slots__ = ("key", "value", "remove")
    FIELDS = (
        Field("key", "string", (0, 32767), default=""),
        Field("value", "float64", (0, 32767), default=0.0),
        Field("remove", "bool", (0, 32767), default=False),
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.key = key
        self.value = value
        self.remove = remove


class AlterClientQuotasRequestEntryData(Message):
    __slots__ = ("entity", "ops")
    FIELDS = (
        Field("entity", [AlterClientQuotasRequestEntityData], (0, 32767), default=()),
        Field("ops", [OpData], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        entity: list[AlterClientQuotasRequestEntityData] | None = None,
        ops: list[OpData] | None = None,
    ) -> None:
        self.entity = [] if entity is None else entity
        self.ops = [] if ops is None else ops


class AlterClientQuotasRequest(Message):
    __slots__ = ("entries", "validate_only")
    FIELDS = (
        Field("entries", [AlterClientQuotasRequestEntryData], (0, 32767), default=()),
        Field("validate_only", "bool", (0, 32767), default=False),
    )
    API_KEY = 49
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1
    RESPONSE = AlterClientQuotasResponse

    def __init__(
        self,
        *,
        entries: list[AlterClientQuotasRequestEntryData] | None = None,
        validate_only: bool = False,
    ) -> None:
        self.entries = [] if entries is None else entries
        self.validate_only = validate_only
