"""Checks changes of this broker's settings that only this broker can check, because they name files on its disks.

The controller checks values; the controller cannot see whether a key store on another machine can be opened. Clients
send the settings of a broker to that broker, so the broker checks them before it forwards the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from penstock.broker.session import RequestContext
from penstock.cluster.decisions.configs import parse_changes
from penstock.cluster.decisions.decision import AlterConfigsResult, FullChange, IncrementalChange
from penstock.core.config.broker_config import BrokerConfig, ConfigError
from penstock.core.config.changes import apply_changes
from penstock.core.config.resources import ConfigResourceType
from penstock.core.config.table import BROKER_KEYS
from penstock.protocol.errors import ApiError, ErrorCode

Change = TypeVar("Change", FullChange, IncrementalChange)


class OwnSettingsPort(Protocol):
    """The parts of the broker that the check of own settings uses."""

    check_settings: Callable[[BrokerConfig], Awaitable[None]] | None
    config: BrokerConfig


async def refuse_unusable(
    broker: OwnSettingsPort, context: RequestContext, changes: Sequence[Change]
) -> tuple[list[Change], list[AlterConfigsResult]]:
    """The changes that this broker accepts, and the errors of the others."""
    if broker.check_settings is None or context.session.is_forwarded:
        return list(changes), []
    usable, refused = [], []
    for change in changes:
        try:
            config = _config_after(broker, change)
            if config is not None:
                await broker.check_settings(config)
        except ConfigError as error:
            resource = change.resource_type, change.resource_name
            refused.append(AlterConfigsResult(*resource, ErrorCode.INVALID_REQUEST, error.message))
        else:
            usable.append(change)
    return usable, refused


def _config_after(broker: OwnSettingsPort, change: FullChange | IncrementalChange) -> BrokerConfig | None:
    """The configuration of this broker after the change. None where the change concerns another resource, or is
    malformed: the controller reports malformed changes in its own words.
    """
    if change.resource_type != ConfigResourceType.BROKER or not change.resource_name:
        return None
    before = broker.config
    try:
        if isinstance(change, IncrementalChange):
            settings = apply_changes(before.dynamic_broker, parse_changes(change), BROKER_KEYS)
        else:
            settings = {name: value for name, value in change.settings if value is not None}
        return before.with_dynamic(before.dynamic_default, settings)
    except (ApiError, ConfigError):
        return None
