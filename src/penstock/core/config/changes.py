"""What AlterConfigs and IncrementalAlterConfigs may do to a topic's or a broker's settings. Pure; texts as Kafka's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.resources import ConfigChange, ConfigOperation
from penstock.core.config.table import find_broker_key
from penstock.core.config.types import ConfigError, ConfigKey, ConfigKind, UpdateMode, format_value


def apply_changes(
    settings: Mapping[str, str], changes: Iterable[ConfigChange], keys: Mapping[str, ConfigKey]
) -> dict[str, str]:
    """The settings after the changes, not yet checked. Raises ConfigError for a list operation on another kind."""
    result = dict(settings)
    for name, operation, value in changes:
        if operation is ConfigOperation.DELETE:
            result.pop(name, None)
            continue
        assert value is not None, "the request's check refuses null values"
        if operation is ConfigOperation.SET:
            result[name] = value
            continue
        key = keys.get(name)
        if key is None or key.kind is not ConfigKind.LIST:
            raise ConfigError(f"Can't {operation.name} to key {name} because its type is not LIST.", key=name)
        present = _split(result[name] if name in result else format_value(key.default) or "")
        elements = value.split(",")
        if operation is ConfigOperation.APPEND:
            present += [element for element in dict.fromkeys(elements) if element not in present]
        else:
            present = [element for element in present if element not in elements]
        result[name] = ",".join(present)
    return result


def check_broker_list_changes(changes: Iterable[ConfigChange]) -> None:
    """For a list operation on another kind of key, Kafka's brokers use other words than its controller for topics."""
    for name, operation, _ in changes:
        if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            key = find_broker_key(name)
            if key is None:
                raise ConfigError(f"Unknown config name: {name}", key=name)
            if key.kind is not ConfigKind.LIST:
                word = operation.name.lower()
                raise ConfigError(f"Config value {word} is not allowed for config key: {name}", key=name)


def check_broker_settings(
    config: BrokerConfig, settings: Mapping[str, str], before: Mapping[str, str], *, is_default: bool
) -> None:
    """Raises ConfigError unless a broker (or, with `is_default`, all brokers) may have these dynamic settings."""
    changed = [name for name, value in settings.items() if before.get(name) != value]
    fixed = [name for name in changed if _mode(name) is UpdateMode.READ_ONLY]
    if fixed:
        raise ConfigError(f"Cannot update these configs dynamically: [{', '.join(fixed)}]", key=fixed[0])
    single = [name for name in settings if _mode(name) is UpdateMode.PER_BROKER]
    if is_default and single:
        text = "Cannot update these configs at default cluster level, broker id must be specified"
        raise ConfigError(f"{text}: [{', '.join(single)}]", key=single[0])
    if is_default:
        config.with_dynamic(settings, config.dynamic_broker)
    else:
        config.with_dynamic(config.dynamic_default, settings)


def _mode(name: str) -> UpdateMode | None:
    key = find_broker_key(name)
    return None if key is None else key.mode


def _split(text: str) -> list[str]:
    return [element for element in text.split(",") if element]
