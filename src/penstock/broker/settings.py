"""Turns the broker's configuration into the coordinators' settings: Kafka's keys and units become theirs."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.coordinators.newcomers import NewcomerBounds
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.group import stored_group_config
from penstock.core.config.keys.group import ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from penstock.core.config.sections import GroupSection, TransactionSection
from penstock.groups.settings import GroupSettings, MigrationPolicy
from penstock.transactions.settings import TransactionSettings

_MS_PER_MINUTE = 60_000


def group_settings(section: GroupSection) -> GroupSettings:
    """The settings of every group without settings of its own."""
    return GroupSettings(
        min_session_timeout_ms=section.group_min_session_timeout_ms,
        max_session_timeout_ms=section.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=section.group_initial_rebalance_delay_ms,
        max_size=section.group_max_size,
        max_metadata_bytes=section.penstock_group_max_metadata_bytes,
        newcomer_bounds=NewcomerBounds(
            of_client=section.penstock_group_pending_joins_max_per_client,
            of_group=section.penstock_group_pending_joins_max_per_group,
            of_all=section.penstock_group_pending_joins_max,
        ),
        offset_metadata_max_bytes=section.offset_metadata_max_bytes,
        offsets_commit_timeout_ms=section.offsets_commit_timeout_ms,
        offsets_retention_ms=section.offsets_retention_minutes * _MS_PER_MINUTE,
        consumer_session_timeout_ms=section.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=section.group_consumer_heartbeat_interval_ms,
        consumer_max_size=section.group_consumer_max_size,
        consumer_assignors=section.group_consumer_assignors,
        consumer_migration_policy=MigrationPolicy(section.group_consumer_migration_policy),
        consumer_assignment_interval_ms=section.group_consumer_assignment_interval_ms,
        consumer_regex_refresh_interval_ms=section.group_consumer_regex_refresh_interval_ms,
    )


def settings_by_group(config: BrokerConfig, group_configs: Mapping[str, Mapping[str, str]]) -> dict[str, GroupSettings]:
    """The settings of the groups with settings of their own, by group id."""
    common = group_settings(config.groups)
    settings = {}
    for group_id, overrides in group_configs.items():
        values = stored_group_config(config, overrides)
        settings[group_id] = common._replace(
            consumer_session_timeout_ms=values[SESSION_TIMEOUT.key],
            consumer_heartbeat_interval_ms=values[HEARTBEAT_INTERVAL.key],
            consumer_assignment_interval_ms=values[ASSIGNMENT_INTERVAL.key],
        )
    return settings


def transaction_settings(section: TransactionSection) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=section.transaction_max_timeout_ms,
        transactional_id_expiration_ms=section.transactional_id_expiration_ms,
    )
