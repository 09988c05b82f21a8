"""The settings by which moves are slowed down (KIP-73), as kafka-reassign-partitions sets and removes them. Pure.

A topic names the replicas that are throttled, as `partition:broker`: those that are read from, and those that are
written. A broker has the rates. Only replicas that move are named: one that is in sync needs all that it can get.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from penstock.admin.state.partitions import PartitionState
from penstock.cli.errors import CliError, UsageError
from penstock.cli.plans.assignments import Assignment, Replicas
from penstock.cli.text import parse_size
from penstock.core.config.keys.throttles import DIRECTORY_RATE
from penstock.core.types import TopicPartition

# The rate of the examples in Kafka's documentation. Each broker sends and receives that much beside what clients do:
# two fifths of a gigabit network, and 500 GB in less than three hours.
DEFAULT_RATE = 50_000_000
NO_THROTTLE = "none"
# Bytes: strings of the protocol have a length of 15 bits, and brokers close the connection over a longer one.
_LONGEST_SETTING = 32_767


class Move(NamedTuple):
    sources: Replicas
    destinations: Replicas


class ThrottledReplicas(NamedTuple):
    leaders: str
    followers: str


def parse_rate(text: str) -> int | None:
    """Bytes per second; None: as fast as it goes."""
    if text == NO_THROTTLE:
        return None
    rate = parse_size(text)
    if rate == 0:
        raise UsageError("at 0 bytes per second nothing would move", "Write --throttle 20m, or --throttle none.")
    return rate


def find_moves(now: Mapping[TopicPartition, PartitionState], wanted: Assignment) -> dict[TopicPartition, Move]:
    """Where records will have to go: for what is wanted, and for what is under way already."""
    moves = {}
    for key, partition in sorted(now.items()):
        if key in wanted:
            sources = partition.sources
            move = Move(sources, tuple(node for node in wanted[key] if node not in sources))
        else:
            move = Move(partition.sources, partition.adding)
        if move.destinations:
            moves[key] = move
    return moves


def throttled_replicas(moves: Mapping[TopicPartition, Move]) -> dict[str, ThrottledReplicas]:
    """The settings of each topic that has a replica that moves. CliError where a topic has too many for one setting."""
    throttled = {}
    for topic, same in itertools.groupby(sorted(moves), _topic_of):
        keys = list(same)
        throttled[topic] = ThrottledReplicas(
            _names((key.partition, moves[key].sources) for key in keys),
            _names((key.partition, moves[key].destinations) for key in keys),
        )
        if max(map(len, throttled[topic])) > _LONGEST_SETTING:
            raise CliError(
                f"{len(keys):,} partitions of {topic} move: their names do not fit into one setting, so they cannot be "
                "throttled together",
                "Apply the plan in parts, or without a throttle: --throttle none",
            )
    return throttled


def _topic_of(key: TopicPartition) -> str:
    return key.topic


def _names(replicas: Iterable[tuple[int, Replicas]]) -> str:
    return ",".join(f"{partition}:{node}" for partition, nodes in replicas for node in sorted(nodes))


def moving_brokers(moves: Mapping[TopicPartition, Move]) -> list[int]:
    return sorted({node for move in moves.values() for node in (*move.sources, *move.destinations)})


def may_keep_rates(
    away: Collection[int], topics: Mapping[str, Mapping[str, str]], brokers: Mapping[int, Mapping[str, str]]
) -> list[int]:
    """Of brokers that are away, by the throttles of topics and of the brokers that are here. Moves set rates at the
    brokers that their topics name. Moves between directories are named nowhere."""
    names = [name for values in topics.values() for value in values.values() for name in value.split(",") if name]
    named = [name.rpartition(":")[2] for name in names]
    is_anybody = not all(map(str.isdecimal, named)) or any(DIRECTORY_RATE in values for values in brokers.values())
    return sorted(node for node in away if is_anybody or str(node) in named)
