"""Configuration resources and changes, as the user names them and as they are shown."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.cli.errors import UsageError
from penstock.cli.output import Table
from penstock.cli.text import parse_setting
from penstock.core.config.resources import ConfigChange, ConfigOperation, ConfigResourceType, ConfigSource


class ResourceKind(enum.IntEnum):
    """Those that have settings here, with Kafka's numbers."""

    TOPIC = ConfigResourceType.TOPIC
    BROKER = ConfigResourceType.BROKER


class Resource(NamedTuple):
    kind: ResourceKind
    name: str  # empty: the default for every broker

    @property
    def is_broker_default(self) -> bool:
        return self.kind is ResourceKind.BROKER and not self.name

    def __str__(self) -> str:
        return "broker defaults" if self.is_broker_default else f"{self.kind.name.lower()} {self.name}"


class Setting(NamedTuple):
    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool

    @property
    def shown_value(self) -> str:
        return "(hidden)" if self.is_sensitive else "" if self.value is None else self.value


_SOURCES: dict[int, str] = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "broker defaults",
    ConfigSource.STATIC_BROKER_CONFIG: "server.properties",
    ConfigSource.DEFAULT_CONFIG: "default",
    ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG: "broker logger",
    ConfigSource.CLIENT_METRICS_CONFIG: "client metrics",
    ConfigSource.GROUP_CONFIG: "group",
}
_ENTITY_TYPES = {
    "topics": ResourceKind.TOPIC,
    "topic": ResourceKind.TOPIC,
    "brokers": ResourceKind.BROKER,
    "broker": ResourceKind.BROKER,
}


def choose_resource(
    topic: str | None,
    broker: int | None,
    broker_defaults: bool,
    entity_type: str | None = None,
    entity_name: str | None = None,
    entity_default: bool = False,
) -> Resource:
    """One resource, named in our way or in that of kafka-configs."""
    given: list[Resource] = []
    if topic is not None:
        given.append(Resource(ResourceKind.TOPIC, topic))
    if broker is not None:
        given.append(Resource(ResourceKind.BROKER, str(broker)))
    if broker_defaults:
        given.append(Resource(ResourceKind.BROKER, ""))
    if entity_type is not None:
        given.append(_choose_entity(entity_type, entity_name, entity_default))
    if len(given) != 1:
        raise UsageError("say whose settings", "One of --topic NAME, --broker ID or --broker-defaults.")
    return given[0]


def _choose_entity(entity_type: str, entity_name: str | None, entity_default: bool) -> Resource:
    kind = _ENTITY_TYPES.get(entity_type)
    if kind is None:
        raise UsageError(f"unknown entity type {entity_type!r}", "There are topics and brokers.")
    if (entity_name is None) == (not entity_default) or (entity_default and kind is ResourceKind.TOPIC):
        raise UsageError("give --entity-name NAME", "Or --entity-default for brokers.")
    if kind is ResourceKind.BROKER and entity_name is not None and not entity_name.isdigit():
        raise UsageError(f"{entity_name!r} is not a broker's id")
    return Resource(kind, entity_name or "")


def parse_changes(
    set_: Iterable[str] | None,
    delete: Iterable[str] | None,
    append: Iterable[str] | None,
    subtract: Iterable[str] | None,
) -> list[ConfigChange]:
    def with_values(operation: ConfigOperation, texts: Iterable[str] | None) -> list[ConfigChange]:
        return [ConfigChange(key, operation, value) for key, value in map(parse_setting, texts or ())]

    changes = [
        *with_values(ConfigOperation.SET, set_),
        *(ConfigChange(key, ConfigOperation.DELETE, None) for text in delete or () for key in text.split(",")),
        *with_values(ConfigOperation.APPEND, append),
        *with_values(ConfigOperation.SUBTRACT, subtract),
    ]
    if not changes:
        raise UsageError("nothing to change", "Give --set, --delete, --append or --subtract.")
    repeated = {change.name for change in changes if sum(other.name == change.name for other in changes) > 1}
    if repeated:
        raise UsageError(f"{min(repeated)} is changed twice", "One change per key.")
    return changes


def own_settings(resource: Resource, settings: Iterable[Setting]) -> list[Setting]:
    """What was set for the resource itself, as opposed to what it inherits."""
    source = ConfigSource.DYNAMIC_BROKER_CONFIG
    if resource.kind is ResourceKind.TOPIC:
        source = ConfigSource.DYNAMIC_TOPIC_CONFIG
    elif resource.is_broker_default:
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [setting for setting in settings if setting.source == source]


def setting_table(settings: Iterable[Setting]) -> Table:
    table = Table(("NAME", "VALUE", "SOURCE", "CHANGES"))
    for setting in sorted(settings):
        changes = "at restart" if setting.is_read_only else "any time"
        table.add(setting.name, setting.shown_value, source_name(setting.source), changes)
    return table


def setting_documents(settings: Iterable[Setting]) -> list[dict[str, Any]]:
    return [
        {
            "name": setting.name,
            "value": None if setting.is_sensitive else setting.value,
            "source": source_name(setting.source),
            "read_only": setting.is_read_only,
            "sensitive": setting.is_sensitive,
        }
        for setting in sorted(settings)
    ]


def source_name(source: int) -> str:
    return _SOURCES.get(source, f"source {source}")
