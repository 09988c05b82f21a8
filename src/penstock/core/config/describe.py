"""What DescribeConfigs returns for a topic, a broker or a group: every key with its value and the value's source.

The order of synonyms, and a source of DEFAULT_CONFIG for a value that came from a key's other name, are Kafka's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.group import stored_group_config
from penstock.core.config.resources import ConfigSource
from penstock.core.config.table import (
    BROKER_KEYS,
    BROKER_SYNONYMS,
    GROUP_KEYS_BY_NAME,
    TOPIC_KEYS_BY_NAME,
    find_broker_key,
)
from penstock.core.config.types import ConfigKey, ConfigKind, ConfigValue, UpdateMode, format_value


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    kind: ConfigKind
    documentation: str | None


def describe_topic(
    config: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The topic's keys, or those of `names` that exist; an empty or missing `names` is all, as in the request."""
    values = config.stored_topic_config(overrides)
    source = ConfigSource.DYNAMIC_TOPIC_CONFIG
    return [
        _overridable(config, key, values[name], source if name in overrides else None)
        for name, key in TOPIC_KEYS_BY_NAME.items()
        if not names or name in names
    ]


def describe_group(
    config: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """A group has settings whether or not it exists."""
    values = stored_group_config(config, overrides)
    source = ConfigSource.GROUP_CONFIG
    return [
        _overridable(config, key, values[name], source if name in overrides else None)
        for name, key in GROUP_KEYS_BY_NAME.items()
        if not names or name in names
    ]


def _overridable(
    config: BrokerConfig, key: ConfigKey, value: ConfigValue, override_source: ConfigSource | None
) -> ConfigEntry:
    """A key whose default is a broker key; `override_source` is the source of the resource's own value."""
    text = format_value(value)
    synonyms = _broker_layers(config, key.synonyms[0].name) if key.synonyms else ()
    if override_source is not None:
        synonyms = (ConfigSynonym(key.name, text, override_source), *synonyms)
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return ConfigEntry(key.name, text, source, False, False, synonyms, key.kind, key.documentation)


def describe_broker(config: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    given = {**config.static, **config.dynamic_default, **config.dynamic_broker}
    unknown = [name for name in given if name not in BROKER_KEYS]
    return [
        _broker_entry(config, name, _broker_layers(config, name))
        for name in (*BROKER_KEYS, *unknown)
        if not names or name in names
    ]


def describe_default_broker(config: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """The dynamic settings for all brokers, which a request for a resource with an empty name gets."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [
        _broker_entry(config, name, tuple(each for each in _broker_layers(config, name) if each.source is source))
        for name in config.dynamic_default
        if not names or name in names
    ]


def _broker_entry(config: BrokerConfig, name: str, synonyms: tuple[ConfigSynonym, ...]) -> ConfigEntry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    key = find_broker_key(name)
    if key is None:
        # An unknown key may be a password with a typing error in its name, so its value is never shown.
        return ConfigEntry(name, None, source, True, True, synonyms, ConfigKind.UNKNOWN, None)
    value = None if key.is_sensitive else _shown_value(config, name, key, synonyms)
    read_only = key.mode is UpdateMode.READ_ONLY
    return ConfigEntry(name, value, source, read_only, key.is_sensitive, synonyms, key.kind, key.documentation)


def _shown_value(config: BrokerConfig, name: str, key: ConfigKey, synonyms: tuple[ConfigSynonym, ...]) -> str | None:
    if synonyms and synonyms[0].source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG:
        return format_value(key.parse(synonyms[0].value or ""))
    return format_value(config.get(name))


def _broker_layers(config: BrokerConfig, name: str) -> tuple[ConfigSynonym, ...]:
    """Every layer that has the key or one of its other names, the strongest first.

    Kafka drops the synonyms before the key's own name. So `log.retention.ms` has no synonyms at all while only
    `log.retention.hours` is set, although its value in effect comes from there; tools expect this.
    """
    names = BROKER_SYNONYMS.get(name, (name,))
    layers = (
        (config.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (config.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (config.static, ConfigSource.STATIC_BROKER_CONFIG),
        (_DEFAULTS, ConfigSource.DEFAULT_CONFIG),
    )
    synonyms = [
        ConfigSynonym(each, None if _is_sensitive(name) else layer[each], source)
        for layer, source in layers
        for each in names
        if each in layer
    ]
    while synonyms and synonyms[0].name != name:
        del synonyms[0]
    return tuple(synonyms)


def _is_sensitive(name: str) -> bool:
    key = find_broker_key(name)
    return key is None or key.is_sensitive


_DEFAULTS: dict[str, str] = {
    name: text for name, key in BROKER_KEYS.items() if (text := format_value(key.default)) is not None
}
