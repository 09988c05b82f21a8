"""Nodes that somebody wrote into the store past the brokers, as Kafka's tools before 3.0 do: what to tell of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.cluster.store import security_nodes, znodes

logger = logging.getLogger(__name__)

# Paths in a warning; of more than that the number is told.
_PATHS_TOLD = 5

# The first root that a path begins with counts.
_COMMANDS = {
    znodes.TOPICS: "kafka-topics --bootstrap-server, or penstock topics",
    "/admin/delete_topics": "kafka-topics --bootstrap-server, or penstock topics",
    "/admin/reassign_partitions": "kafka-reassign-partitions --bootstrap-server, or penstock reassign",
    "/admin/preferred_replica_election": "kafka-leader-election --bootstrap-server, or penstock leaders",
    "/kafka-acl-": "kafka-acls --bootstrap-server, or penstock acls",
    security_nodes.LITERAL_ACLS: "kafka-acls --bootstrap-server, or penstock acls",
    security_nodes.TOKENS: "kafka-delegation-tokens --bootstrap-server",
    f"{security_nodes.CONFIGS}/users": "kafka-configs --bootstrap-server, or penstock users and penstock quotas",
    f"{security_nodes.CONFIGS}/clients": "kafka-configs --bootstrap-server, or penstock quotas",
    f"{security_nodes.CONFIGS}/ips": "kafka-configs --bootstrap-server, or penstock quotas",
    security_nodes.CONFIGS: "kafka-configs --bootstrap-server, or penstock configs",
    znodes.FEATURES: "penstock cluster upgrade",
    security_nodes.POLICIES: "penstock policies",
    "/": "the commands of penstock",
}


def warn_of_ignored(paths: Sequence[str]) -> None:
    _warn("not of this cluster's making, and ignored", paths)


def warn_of_changed(paths: Sequence[str]) -> None:
    _warn("changed by somebody else, and written anew", paths)


def warn_of_unread(paths: Sequence[str]) -> None:
    if paths:
        logger.warning("the metadata store does not let us read nodes of the cluster: %s", _some(paths))


def _warn(what: str, paths: Sequence[str]) -> None:
    """One warning for each command that should have been used."""
    by_command: dict[str, list[str]] = {}
    for path in paths:
        by_command.setdefault(right_command(path), []).append(path)
    for command, found in by_command.items():
        logger.warning(
            "the metadata store has nodes that are %s: %s. Nothing counts that is written past the brokers. Use %s.",
            what,
            _some(found),
            command,
        )


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _PATHS_TOLD} more" if len(paths) > _PATHS_TOLD else ""
    return ", ".join(paths[:_PATHS_TOLD]) + more


def right_command(path: str) -> str:
    """What does what somebody meant who wrote the node."""
    return next(command for root, command in _COMMANDS.items() if path.startswith(root))


def is_broker_name(name: str) -> bool:
    """Whether a node's name is that of a broker, as we write it."""
    return name.isascii() and name.isdigit() and str(int(name)) == name
