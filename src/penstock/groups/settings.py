"""The settings of groups. Defaults are Kafka's."""

from __future__ import annotations

import enum
from typing import NamedTuple

from penstock.coordinators.newcomers import NewcomerBounds

_MINUTE_MS = 60_000
_DAY_MS = 24 * 60 * _MINUTE_MS


class MigrationPolicy(enum.Enum):
    """Whether a group with members may change from one protocol to the other (group.consumer.migration.policy)."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def can_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def can_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


class GroupSettings(NamedTuple):
    # group.min.session.timeout.ms: shorter sessions make the coordinator the victim of every client's pause.
    min_session_timeout_ms: int = 6_000
    # group.max.session.timeout.ms: longer ones leave partitions unread for that long after a crash.
    max_session_timeout_ms: int = 30 * _MINUTE_MS
    # group.initial.rebalance.delay.ms: an empty group waits this long for more members before its first generation.
    initial_rebalance_delay_ms: int = 3_000
    # group.max.size: unlimited, as in Kafka.
    max_size: int = 2**31 - 1
    # penstock.group.max.metadata.bytes: the offers of all members of a group, and the assignments of all of them. One
    # turn of the loop handles it: 2 ms per MB. Members offer several protocols. The group's record has one of them, and
    # the record has to fit into a message of `__consumer_offsets`, 1 MB unless the topic allows more.
    max_metadata_bytes: int = 16 * 1024 * 1024
    # A new member cannot send heartbeats while its JoinGroup is parked, so this bounds the wait for a vanished member.
    # Not configurable in Kafka either.
    new_member_join_timeout_ms: int = 5 * _MINUTE_MS
    # penstock.group.pending.joins.*: members that joined and have sent nothing since. A broker is made for 5,000
    # clients, which may all be in one group and may all begin at once. Half of them from one address as one user, or
    # twice as many in all, are no trouble yet.
    newcomer_bounds: NewcomerBounds = NewcomerBounds(of_client=2_500, of_group=5_000, of_all=10_000)
    # offset.metadata.max.bytes, counted in UTF-16 units as Kafka does.
    offset_metadata_max_bytes: int = 4_096
    # offsets.retention.minutes
    offsets_retention_ms: int = 7 * _DAY_MS
    # offsets.commit.timeout.ms: the limit of every reply that waits for replicas, as in Kafka. The value at the start
    # stays.
    offsets_commit_timeout_ms: int = 5_000
    # group.consumer.*: groups of KIP-848. The coordinator, not the member, sets the heartbeat interval.
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_max_size: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")  # the first is the default
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    # The minimum time between two targets: many members that join at once are then assigned once.
    consumer_assignment_interval_ms: int = 1_000
    consumer_regex_refresh_interval_ms: int = 10 * _MINUTE_MS
