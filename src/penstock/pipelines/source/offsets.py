"""The positions in partitions that options may name. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from penstock.core.types import TopicPartition
from penstock.pipelines.kafka.offsets_json import Offsets, from_json
from penstock.pipelines.options import refuse_value

LATEST = -1
EARLIEST = -2


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The same position in all partitions."""

    position: int  # LATEST or EARLIEST


@dataclass(frozen=True, slots=True)
class PerPartition:
    offsets: Mapping[TopicPartition, int]  # LATEST and EARLIEST are allowed


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record of this time or later."""

    timestamp: int
    per_partition: Mapping[TopicPartition, int] | None = None  # in place of `timestamp`


@dataclass(frozen=True, slots=True)
class OfGroup:
    group_id: str


Position: TypeAlias = Everywhere | PerPartition | AtTimestamp | OfGroup


def parse_per_partition(option: str, text: str, accepts: str) -> Offsets:
    """OptionError unless `text` is {"topic":{"0":number}}."""
    nested = _parse_object(option, text, accepts)
    try:
        parsed = from_json(nested)
    except (AttributeError, TypeError, ValueError):
        raise refuse_value(option, text, accepts) from None
    if not parsed:
        raise refuse_value(option, text, accepts)
    return parsed


def parse_assignment(option: str, text: str) -> frozenset[TopicPartition]:
    accepts = 'partitions per topic such as {"topicA":[0,1],"topicB":[2]}'
    nested = _parse_object(option, text, accepts)
    assigned: set[TopicPartition] = set()
    for topic, partitions in nested.items():
        if not isinstance(partitions, list) or not all(type(partition) is int for partition in partitions):
            raise refuse_value(option, text, accepts)
        assigned.update(TopicPartition(topic, partition) for partition in partitions)
    if not assigned:
        raise refuse_value(option, text, accepts)
    return frozenset(assigned)


def name_partitions(partitions: Collection[TopicPartition], most: int = 10) -> str:
    """The partitions as messages name them: sorted, and a few of many."""
    names = [str(partition) for partition in sorted(partitions)]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _parse_object(option: str, text: str, accepts: str) -> dict[str, Any]:
    try:
        nested = json.loads(text)
    except json.JSONDecodeError:
        raise refuse_value(option, text, accepts) from None
    if not isinstance(nested, dict):
        raise refuse_value(option, text, accepts)
    return nested
