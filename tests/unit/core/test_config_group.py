"""Settings of groups. Texts are those that a running Kafka 4.3.1 answered with."""

from __future__ import annotations

import pytest

from penstock.core.config.broker_config import BrokerConfig, ConfigError
from penstock.core.config.describe import describe_group
from penstock.core.config.group import group_config, stored_group_config
from penstock.core.config.resources import ConfigSource

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"
DEFAULTS = BrokerConfig.parse({})


def test_value_is_the_groups_own_when_it_has_one() -> None:
    assert group_config(DEFAULTS, {SESSION: "50000"}) == {SESSION: 50_000, HEARTBEAT: 5_000, ASSIGNMENT: 1_000}


def test_default_is_the_brokers_when_configured_there() -> None:
    config = BrokerConfig.parse({"group.consumer.heartbeat.interval.ms": "9000"})
    assert group_config(config, {})[HEARTBEAT] == 9_000
    (entry,) = describe_group(config, {}, [HEARTBEAT])
    assert (entry.value, entry.source) == ("9000", ConfigSource.STATIC_BROKER_CONFIG)


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        ({SESSION: "1"}, f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ({SESSION: "60001"}, f"{SESSION} must be less than or equal to group.consumer.max.session.timeout.ms"),
        ({HEARTBEAT: "1"}, f"{HEARTBEAT} must be greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        ({HEARTBEAT: "15001"}, f"{HEARTBEAT} must be less than or equal to group.consumer.max.heartbeat.interval.ms"),
        (
            {ASSIGNMENT: "15001"},
            f"{ASSIGNMENT} must be less than or equal to group.consumer.max.assignment.interval.ms",
        ),
        ({HEARTBEAT: "x"}, f"Invalid value x for configuration {HEARTBEAT}: Not a number of type INT"),
        ({"share.session.timeout.ms": "45000"}, "Unknown group config name: share.session.timeout.ms"),
    ],
)
def test_setting_is_refused_when_the_broker_does_not_allow_it(overrides: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        group_config(DEFAULTS, overrides)
    assert refused.value.message == text


def test_setting_is_refused_when_a_session_would_not_outlast_a_heartbeat() -> None:
    config = BrokerConfig.parse({"group.consumer.min.session.timeout.ms": "5000"})
    with pytest.raises(ConfigError, match=f"{SESSION} must be greater than {HEARTBEAT}"):
        group_config(config, {SESSION: "5000"})


def test_stored_value_counts_as_the_nearest_allowed_when_the_bounds_have_moved() -> None:
    stored = {SESSION: "50000", HEARTBEAT: "6000", ASSIGNMENT: "no number any more", "gone.key": "1"}
    config = BrokerConfig.parse(
        {"group.consumer.max.session.timeout.ms": "48000", "group.consumer.max.heartbeat.interval.ms": "5500"}
    )
    values = stored_group_config(config, stored)
    assert (values[SESSION], values[HEARTBEAT], values[ASSIGNMENT]) == (48_000, 5_500, 1_000)


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        (
            {"group.consumer.session.timeout.ms": "30000"},
            "group.consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {"group.consumer.heartbeat.interval.ms": "16000"},
            (
                "group.consumer.heartbeat.interval.ms must be less than or equal to "
                "group.consumer.max.heartbeat.interval.ms"
            ),
        ),
        (
            {"group.consumer.max.assignment.interval.ms": "1", "group.consumer.min.assignment.interval.ms": "2"},
            (
                "group.consumer.max.assignment.interval.ms must be greater than or equal to "
                "group.consumer.min.assignment.interval.ms"
            ),
        ),
        (
            {"group.consumer.min.session.timeout.ms": "5000", "group.consumer.session.timeout.ms": "5000"},
            "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
        ),
    ],
)
def test_start_is_refused_when_the_brokers_own_values_contradict_each_other(
    properties: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.parse(properties)
    assert refused.value.message == text
