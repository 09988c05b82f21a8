"""Whether the broker serves, and why not: what `/healthz` answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.broker.broker import Broker


@dataclass(frozen=True, slots=True)
class Health:
    """`reasons` says in words why the broker does not serve: starting, shutting down, no log directory left..."""

    is_serving: bool
    reasons: tuple[str, ...] = ()
    details: dict[str, object] = field(default_factory=dict)


def examine(broker: Broker, *, is_stopping: bool) -> Health:
    """One directory that works is enough: the partitions in the others are offline, the rest is served."""
    directories = broker.directories
    offline = directories.offline.copy()  # a thread that closes logs at shutdown may add a directory at any moment
    reasons = []
    if is_stopping:
        reasons.append("shutting down")
    elif not directories.directories.keys() - offline.keys():
        reasons.append("every data directory is offline")
    details: dict[str, object] = {
        "node_id": broker.node_id,
        "offline_partitions": len(directories.offline_logs),
        "offline_directories": {str(path): reason for path, reason in offline.items()},
    }
    return Health(not reasons, tuple(reasons), details)
