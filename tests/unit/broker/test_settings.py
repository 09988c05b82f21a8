from __future__ import annotations

from penstock.broker.settings import group_settings, settings_by_group, transaction_settings
from penstock.core.config.broker_config import BrokerConfig
from penstock.groups.settings import GroupSettings, MigrationPolicy
from penstock.transactions.settings import TransactionSettings


def test_coordinators_get_kafkas_defaults_when_nothing_is_configured() -> None:
    config = BrokerConfig.parse({})
    assert group_settings(config.groups) == GroupSettings()
    assert transaction_settings(config.transactions) == TransactionSettings()


def test_units_and_words_are_those_of_the_coordinator_when_keys_are_set() -> None:
    config = BrokerConfig.parse(
        {"offsets.retention.minutes": "2", "group.consumer.migration.policy": "upgrade", "group.max.size": "7"}
    )
    settings = group_settings(config.groups)
    assert (settings.offsets_retention_ms, settings.max_size) == (120_000, 7)
    assert settings.consumer_migration_policy is MigrationPolicy.UPGRADE


def test_group_has_its_own_value_within_the_brokers_bounds_when_it_has_settings() -> None:
    config = BrokerConfig.parse({"group.consumer.max.session.timeout.ms": "50000"})
    by_group = settings_by_group(config, {"slow": {"consumer.session.timeout.ms": "90000"}})
    assert by_group == {"slow": group_settings(config.groups)._replace(consumer_session_timeout_ms=50_000)}
