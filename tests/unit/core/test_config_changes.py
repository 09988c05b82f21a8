from __future__ import annotations

import pytest

from penstock.core.config.broker_config import BrokerConfig, ConfigError
from penstock.core.config.changes import (
    apply_changes,
    check_broker_list_changes,
    check_broker_settings,
)
from penstock.core.config.resources import ConfigChange, ConfigOperation
from penstock.core.config.table import TOPIC_KEYS_BY_NAME

SET, DELETE, APPEND, SUBTRACT = ConfigOperation


def apply(settings: dict[str, str], *changes: tuple[str, ConfigOperation, str | None]) -> dict[str, str]:
    return apply_changes(settings, [ConfigChange(*change) for change in changes], TOPIC_KEYS_BY_NAME)


def test_set_and_delete_change_only_their_key_when_applied() -> None:
    before = {"retention.ms": "1", "segment.ms": "2"}
    assert apply(before, ("retention.ms", SET, "9"), ("segment.ms", DELETE, None)) == {"retention.ms": "9"}
    assert before == {"retention.ms": "1", "segment.ms": "2"}
    assert apply({}, ("no.such.key", DELETE, None)) == {}


def test_append_starts_from_the_default_when_the_key_is_not_set() -> None:
    assert apply({}, ("cleanup.policy", APPEND, "compact")) == {"cleanup.policy": "delete,compact"}


def test_append_adds_nothing_twice_when_an_element_is_there() -> None:
    assert apply({"cleanup.policy": "compact"}, ("cleanup.policy", APPEND, "compact,delete,delete")) == {
        "cleanup.policy": "compact,delete"
    }


def test_subtract_leaves_an_empty_list_when_everything_goes() -> None:
    assert apply({}, ("cleanup.policy", SUBTRACT, "delete,other")) == {"cleanup.policy": ""}


@pytest.mark.parametrize("name", ["retention.ms", "no.such.key"])
@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_list_operation_is_refused_when_the_key_is_no_list(name: str, operation: ConfigOperation) -> None:
    with pytest.raises(ConfigError, match=f"Can't {operation.name} to key {name} because its type is not LIST"):
        apply({}, (name, operation, "1"))


def test_brokers_words_differ_when_a_list_operation_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Config value append is not allowed for config key: log\.retention\.ms"):
        check_broker_list_changes([ConfigChange("log.retention.ms", APPEND, "5")])
    with pytest.raises(ConfigError, match=r"Unknown config name: foo\.baz"):
        check_broker_list_changes([ConfigChange("foo.baz", SUBTRACT, "5")])
    check_broker_list_changes([ConfigChange("log.cleanup.policy", APPEND, "compact")])


def test_dynamic_update_is_refused_when_the_key_is_read_only() -> None:
    config = BrokerConfig.parse({})
    with pytest.raises(ConfigError, match=r"Cannot update these configs dynamically: \[num.partitions, broker.id\]"):
        check_broker_settings(config, {"num.partitions": "5", "broker.id": "1"}, {}, is_default=False)


def test_read_only_key_does_not_hinder_others_when_it_was_stored_long_ago() -> None:
    stored = {"num.partitions": "5"}
    config = BrokerConfig.parse({})
    check_broker_settings(config, {**stored, "log.retention.ms": "9"}, stored, is_default=False)


def test_dynamic_update_is_refused_when_the_combination_is_bad() -> None:
    config = BrokerConfig.parse({"log.cleaner.max.compaction.lag.ms": "5"})
    with pytest.raises(ConfigError, match="conflict topic config"):
        check_broker_settings(config, {"log.cleaner.min.compaction.lag.ms": "9"}, {}, is_default=True)


def test_unknown_key_is_stored_when_set_on_a_broker() -> None:
    check_broker_settings(BrokerConfig.parse({}), {"my.plugin.key": "9"}, {}, is_default=False)
