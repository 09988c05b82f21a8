"""Where the replicas of partitions are, and where they are to go, in the JSON of Kafka's own tools. Pure.

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}]}
    {"version": 1, "topics": [{"topic": "orders"}]}

The first is what kafka-reassign-partitions reads and writes; a directory `any` leaves the choice to the broker. The
second names the topics of a plan. kafka-leader-election reads the first without replicas.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from penstock.admin.state.brokers import BrokerState
from penstock.admin.state.partitions import PartitionState
from penstock.cli.errors import UsageError
from penstock.core.types import TopicPartition

Replicas = tuple[int, ...]
Assignment = Mapping[TopicPartition, Replicas]

ANY_DIRECTORY = "any"
_VERSION = 1
_FORM = 'Kafka\'s form: {"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2]}]}'
_TOPICS_FORM = 'Kafka\'s form: {"version":1,"topics":[{"topic":"orders"}]}'


class ReplicaPlace(NamedTuple):
    """One copy of a partition."""

    key: TopicPartition
    broker: int

    def __str__(self) -> str:
        return f"{self.key} on broker {self.broker}"


class ClusterNow(NamedTuple):
    """What one broker told, with the moves that are under way."""

    controller: int | None
    brokers: Mapping[int, BrokerState]  # those that are there
    partitions: Mapping[TopicPartition, PartitionState]
    away: frozenset[int] = frozenset()  # registered and not there; empty where the cluster does not tell

    @property
    def moving(self) -> dict[TopicPartition, PartitionState]:
        return {key: partition for key, partition in self.partitions.items() if partition.is_moving}

    @property
    def missing_brokers(self) -> list[int]:
        """Brokers that have replicas, and are not there."""
        named = {node for partition in self.partitions.values() for node in partition.target}
        return sorted(named - self.brokers.keys())


class Reassignment(NamedTuple):
    """What a file asks for."""

    replicas: dict[TopicPartition, Replicas]
    directories: dict[ReplicaPlace, str]  # only where the file names one


# ---------------------------------------------------------------------------------------------------- reading


def parse_reassignment(text: str) -> Reassignment:
    """A plan may be empty: nothing had to move."""
    document = _parse_document(text, _FORM)
    if "topics" in document and "partitions" not in document:
        raise UsageError("the file names topics, and not where they go", "Plan first: penstock reassign plan -f FILE")
    replicas: dict[TopicPartition, Replicas] = {}
    directories: dict[ReplicaPlace, str] = {}
    for entry in _entries(document, "partitions", _FORM):
        key = _key(entry, replicas)
        replicas[key] = _replicas(key, entry.get("replicas"))
        for node, directory in zip(replicas[key], _directories(key, entry, len(replicas[key])), strict=True):
            if directory != ANY_DIRECTORY:
                directories[ReplicaPlace(key, node)] = directory
    return Reassignment(replicas, directories)


def parse_topics(text: str) -> list[str]:
    names = [entry.get("topic") for entry in _entries(_parse_document(text, _TOPICS_FORM), "topics", _TOPICS_FORM)]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise UsageError("the file names no topics", _TOPICS_FORM)
    return list(dict.fromkeys(map(str, names)))


def parse_partition_list(text: str) -> list[TopicPartition]:
    """What kafka-leader-election reads."""
    keys: dict[TopicPartition, None] = {}
    for entry in _entries(_parse_document(text, _FORM), "partitions", _FORM):
        keys[_key(entry, keys)] = None
    if not keys:
        raise UsageError("the file has no partitions", _FORM)
    return list(keys)


def _parse_document(text: str, form: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the file is not JSON: {error}", form) from None
    if not isinstance(document, dict):
        raise UsageError("the file is not a JSON object", form)
    version = document.get("version", _VERSION)
    if version != _VERSION:
        raise UsageError(f"version {version} of the file is not known", form)
    return document


def _entries(document: dict[str, Any], name: str, form: str) -> list[dict[str, Any]]:
    entries = document.get(name)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"the file has no list of {name}", form)
    return entries


def _key(entry: dict[str, Any], seen: Mapping[TopicPartition, object]) -> TopicPartition:
    topic, partition = entry.get("topic"), entry.get("partition")
    if not isinstance(topic, str) or not topic or not _is_number(partition):
        raise UsageError(f"{json.dumps(entry)} names no partition", _FORM)
    key = TopicPartition(topic, int(str(partition)))
    if key in seen:
        raise UsageError(f"the file has {key} twice")
    return key


def _replicas(key: TopicPartition, numbers: object) -> Replicas:
    if not isinstance(numbers, list) or not numbers or not all(_is_number(number) for number in numbers):
        raise UsageError(f"{key} has no list of replicas", _FORM)
    doubled = [number for number, count in Counter(numbers).items() if count > 1]
    if doubled:
        raise UsageError(f"{key} has broker {doubled[0]} twice")
    return tuple(numbers)


def _directories(key: TopicPartition, entry: dict[str, Any], count: int) -> list[str]:
    directories = entry.get("log_dirs", [ANY_DIRECTORY] * count)
    if not isinstance(directories, list) or not all(isinstance(each, str) for each in directories):
        raise UsageError(f"log_dirs of {key} is not a list of directories", _FORM)
    if len(directories) != count:
        raise UsageError(f"{key} has {count} replicas and {len(directories)} log_dirs", "One for each, or `any`.")
    return directories


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# ---------------------------------------------------------------------------------------------------- writing


def reassignment_document(assignment: Assignment) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "partitions": [
            {
                "topic": key.topic,
                "partition": key.partition,
                "replicas": list(replicas),
                "log_dirs": [ANY_DIRECTORY] * len(replicas),
            }
            for key, replicas in sorted(assignment.items())
        ],
    }


def format_reassignment(assignment: Assignment) -> str:
    """One line, as Kafka's tool writes it."""
    return json.dumps(reassignment_document(assignment), separators=(",", ":"))


# ---------------------------------------------------------------------------------------------------- choosing


def choose_partitions(now: ClusterNow, topics: Iterable[str] | None) -> dict[TopicPartition, PartitionState]:
    """The partitions of the topics, or all of them; UsageError when a topic is not there."""
    if topics is None:
        return dict(sorted(now.partitions.items()))
    wanted = list(topics)
    existing = {key.topic for key in now.partitions}
    for name in wanted:
        if name not in existing:
            raise UsageError(f"there is no topic {name}", "`penstock topics list --internal` shows all of them.")
    return {key: partition for key, partition in sorted(now.partitions.items()) if key.topic in wanted}


def parse_broker_ids(texts: Iterable[str]) -> list[int]:
    """`1,2,3`, or repeated."""
    parts = [part.strip() for text in texts for part in text.split(",")]
    for part in parts:
        if not (part.isascii() and part.isdigit()):
            raise UsageError(f"{part!r} is not the id of a broker", "Write them like 1,2,3.")
    return list(dict.fromkeys(map(int, parts)))
