"""Who may take how many of the descriptors that the process may open (`ulimit -n`).

Connections, log files and everything else share one number. Clients decide how many connections there are, so
connections end first: a broker without a descriptor left can neither open a segment nor write a checkpoint.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.log.storage.open_files import MAX_OPEN_FILES

# 512 open segments, 256 connections of other brokers, 64 of the monitoring, and 192 for the rest: ports, metadata,
# connections to other brokers and to ZooKeeper, checkpoints and indexes that are written, connections that are refused.
_RESERVE = 1_024
# A broker has a handful of connections to each other broker.
_MAX_BROKER_CONNECTIONS = 256


class Shares(NamedTuple):
    connections: int  # of all clients
    connections_of_address: int
    broker_connections: int  # on a listener that is for brokers alone, besides
    log_files: int


def share_descriptors(most: int) -> Shares:
    """Where there are few, connections get half, open segments a quarter, and brokers an eighth."""
    half = max(most // 2, 1)
    connections = max(half, most - _RESERVE)
    return Shares(
        connections,
        # One address alone leaves room for others.
        max(min(half, connections * 3 // 4), 1),
        max(min(most // 8, _MAX_BROKER_CONNECTIONS), 1),
        max(min(most // 4, MAX_OPEN_FILES), 1),
    )


def own_shares() -> Shares | None:
    """Of this process, as its limit is now; None where there is no limit."""
    try:
        import resource
    except ImportError:  # not on Unix
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if most == resource.RLIM_INFINITY else share_descriptors(most)
