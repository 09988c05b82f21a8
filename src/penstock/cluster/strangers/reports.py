"""Nodes that other programs wrote into the store past the brokers, as Kafka's tools before 3.0 do: the warnings about
them, and the record of earlier warnings.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.cluster.store import security_nodes, znodes

logger = logging.getLogger(__name__)

# The number of remembered paths for each kind of look, so that a store full of them costs little.
_MOST_TOLD = 1_000
# The number of paths in a warning; for more paths the warning has their number.
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


class News(NamedTuple):
    paths: list[str]
    known: Mapping[str, int]  # the checksum of each path with a warning, now or before


def checksum(data: bytes) -> int:
    """Stands for the content of a node, which may be a megabyte that another program wrote."""
    return zlib.crc32(data)


def find_news(before: Mapping[str, int], sums: Mapping[str, int]) -> News:
    """The paths of a look, with their checksums, that the look before of this kind did not find with this checksum. A
    node that is deleted and created again is reported a second time.
    """
    known = {path: each for path, each in sums.items() if before.get(path) == each}
    new = [path for path in sums if path not in known][: _MOST_TOLD - len(known)]
    return News(new, known | {path: sums[path] for path in new})


class Told:
    """The warnings of a broker since its process began: one for a node that does not change, however many terms the
    broker has as the controller. For the loop alone; a thread gets `known`, which never changes, and returns the news.
    """

    def __init__(self) -> None:
        self._known: dict[str, Mapping[str, int]] = {}

    def known(self, look: str) -> Mapping[str, int]:
        return self._known.get(look, {})

    def keep(self, look: str, news: News) -> list[str]:
        self._known[look] = news.known
        return news.paths

    def news(self, look: str, found: Mapping[str, bytes]) -> list[str]:
        sums = {path: checksum(data) for path, data in found.items()}
        return self.keep(look, find_news(self.known(look), sums))


def warn_of_ignored(paths: Sequence[str]) -> None:
    _warn("not of this cluster's making, and ignored", paths)


def warn_of_changed(paths: Sequence[str]) -> None:
    _warn("changed by somebody else, and written anew", paths)


def warn_of_unread(paths: Sequence[str]) -> None:
    if paths:
        logger.warning("the metadata store does not let us read nodes of the cluster: %s", _some(paths))


def _warn(what: str, paths: Sequence[str]) -> None:
    """Logs one warning for each command that should have been used."""
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
    """The command that does what the writer of the node meant."""
    return next(command for root, command in _COMMANDS.items() if path.startswith(root))


def is_broker_name(name: str) -> bool:
    """Whether a node's name is that of a broker, as we write it."""
    return name.isascii() and name.isdigit() and str(int(name)) == name
