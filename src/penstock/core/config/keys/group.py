"""The keys that a single group can have (resource type GROUP). Facts are Kafka 4.3's; the words are ours.

Kafka's keys for share and streams groups are not here, because those groups are not served.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.config.types import ConfigKey, ConfigKind, Range, Synonym, UpdateMode


class Bounds(NamedTuple):
    """A key of groups, and the broker keys for its default, its least and its largest value."""

    key: str
    default: str
    low: str
    high: str


def _bounds(what: str) -> Bounds:
    prefix = "group.consumer"
    return Bounds(f"consumer.{what}", f"{prefix}.{what}", f"{prefix}.min.{what}", f"{prefix}.max.{what}")


HEARTBEAT_INTERVAL = _bounds("heartbeat.interval.ms")
SESSION_TIMEOUT = _bounds("session.timeout.ms")
ASSIGNMENT_INTERVAL = _bounds("assignment.interval.ms")
BOUNDS = (HEARTBEAT_INTERVAL, SESSION_TIMEOUT, ASSIGNMENT_INTERVAL)  # in the order in which Kafka checks them


def _key(bounds: Bounds, default: int, rule: Range, documentation: str) -> ConfigKey:
    synonyms = (Synonym(bounds.default),)
    mode = UpdateMode.CLUSTER_WIDE
    return ConfigKey(bounds.key, ConfigKind.INT, default, documentation, rule, mode=mode, synonyms=synonyms)


GROUP_RESOURCE_KEYS: tuple[ConfigKey, ...] = (
    _key(SESSION_TIMEOUT, 45_000, Range(1), "How long a member of the group may be silent."),
    _key(HEARTBEAT_INTERVAL, 5000, Range(1), "How often members of the group are told to send heartbeats."),
    _key(ASSIGNMENT_INTERVAL, 1000, Range(0), "At least this long between two assignments of the group."),
)
