"""The settings of single groups: a group's own value, else the broker's, within what the broker allows."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from penstock.core.config.broker_config import BrokerConfig, parse_value
from penstock.core.config.keys.group import BOUNDS, HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from penstock.core.config.table import GROUP_KEYS_BY_NAME
from penstock.core.config.types import ConfigError


def group_config(config: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, int]:
    """Every group key's value for a group with these overrides. Raises ConfigError for a bad one."""
    values = _defaults(config)
    for name, text in overrides.items():
        values[name] = _parse(name, text)
    for bounds in BOUNDS:
        if values[bounds.key] < _number(config, bounds.low):
            raise ConfigError(f"{bounds.key} must be greater than or equal to {bounds.low}", key=bounds.key)
        if values[bounds.key] > _number(config, bounds.high):
            raise ConfigError(f"{bounds.key} must be less than or equal to {bounds.high}", key=bounds.key)
    if values[SESSION_TIMEOUT.key] <= values[HEARTBEAT_INTERVAL.key]:
        message = f"{SESSION_TIMEOUT.key} must be greater than {HEARTBEAT_INTERVAL.key}"
        raise ConfigError(message, key=SESSION_TIMEOUT.key)
    return values


def stored_group_config(config: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, int]:
    """As `group_config`, for settings that were checked when they were stored: the broker's bounds may have changed
    since, so a value outside them counts as the nearest within.
    """
    values = _defaults(config)
    for name, text in overrides.items():
        with contextlib.suppress(ConfigError):
            values[name] = _parse(name, text)
    for bounds in BOUNDS:
        low, high = _number(config, bounds.low), _number(config, bounds.high)
        values[bounds.key] = min(max(values[bounds.key], low), high)
    return values


def _defaults(config: BrokerConfig) -> dict[str, int]:
    return {bounds.key: _number(config, bounds.default) for bounds in BOUNDS}


def _parse(name: str, text: str) -> int:
    key = GROUP_KEYS_BY_NAME.get(name)
    if key is None:
        raise ConfigError(f"Unknown group config name: {name}", key=name)
    value: Any = parse_value(key, text)
    return int(value)


def _number(config: BrokerConfig, name: str) -> int:
    value = config.get(name)
    assert isinstance(value, int)
    return value
