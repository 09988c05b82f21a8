"""Keys for one listener alone."""

from __future__ import annotations

import pytest

from penstock.core.config.broker_config import BrokerConfig, ConfigError
from penstock.core.config.describe import describe_broker


def test_value_is_the_listeners_when_it_has_one() -> None:
    config = BrokerConfig.parse({"listener.name.internal.max.connections": "7", "max.connections": "9"})
    assert config.listener_value("INTERNAL", "max.connections") == 7
    assert config.listener_value("OTHER", "max.connections") == 9
    assert not config.warnings


def test_value_is_the_mechanisms_when_it_has_one() -> None:
    config = BrokerConfig.parse({"listener.name.internal.plain.max.connections": "7"})
    assert config.listener_value("INTERNAL", "max.connections", "PLAIN") == 7
    assert config.listener_value("INTERNAL", "max.connections", "SCRAM-SHA-256") == config.network.max_connections


def test_value_of_a_listener_is_checked_like_the_key() -> None:
    with pytest.raises(ConfigError, match=r"max\.connections"):
        BrokerConfig.parse({"listener.name.internal.max.connections": "-1"})


def test_listeners_key_is_described_with_its_value() -> None:
    config = BrokerConfig.parse({"listener.name.internal.max.connections": "7"})
    (entry,) = describe_broker(config, ["listener.name.internal.max.connections"])
    assert (entry.value, entry.is_sensitive) == ("7", False)


def test_key_that_nobody_knows_is_warned_of_when_it_is_for_a_listener() -> None:
    config = BrokerConfig.parse({"listener.name.internal.no.such.key": "7"})
    assert any("listener.name.internal.no.such.key" in warning for warning in config.warnings)
