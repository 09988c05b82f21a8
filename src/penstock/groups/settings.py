"""What an operator may set for groups. Defaults are Kafka's."""

from __future__ import annotations

from typing import NamedTuple

_MINUTE_MS = 60_000
_DAY_MS = 24 * 60 * _MINUTE_MS


class GroupSettings(NamedTuple):
    # group.min.session.timeout.ms: shorter sessions make the coordinator the victim of every client's pause.
    min_session_timeout_ms: int = 6_000
    # group.max.session.timeout.ms: longer ones leave partitions unread for that long after a crash.
    max_session_timeout_ms: int = 30 * _MINUTE_MS
    # group.initial.rebalance.delay.ms: an empty group waits this long for more members before its first generation.
    initial_rebalance_delay_ms: int = 3_000
    # group.max.size: unlimited, as in Kafka.
    max_size: int = 2**31 - 1
    # A new member cannot send heartbeats while its JoinGroup is parked, so this bounds how long a vanished one is
    # waited for. Not configurable in Kafka either.
    new_member_join_timeout_ms: int = 5 * _MINUTE_MS
    # offset.metadata.max.bytes, counted in UTF-16 units as Kafka does.
    offset_metadata_max_bytes: int = 4_096
    # offsets.retention.minutes
    offsets_retention_ms: int = 7 * _DAY_MS
