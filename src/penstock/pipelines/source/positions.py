"""Positions that options name, as offsets: what a starting or ending option means at this moment."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from penstock.core.types import TopicPartition
from penstock.pipelines.kafka.offsets_json import Offsets
from penstock.pipelines.options import OptionError
from penstock.pipelines.source.offsets import (
    EARLIEST,
    LATEST,
    AtTimestamp,
    Everywhere,
    OfGroup,
    PerPartition,
    Position,
    name_partitions,
)


class OffsetLookup(Protocol):
    """The questions that a cluster must answer. Partitions that do not exist are left out of the answers."""

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets: ...

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets: ...

    def at_timestamps(self, timestamps: Mapping[TopicPartition, int]) -> Offsets: ...

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> Offsets: ...


def resolve(lookup: OffsetLookup, partitions: Collection[TopicPartition], position: Position) -> Offsets:
    """An offset for each partition; LATEST stays where a time is later than every record."""
    match position:
        case Everywhere(place):
            return lookup.earliest(partitions) if place == EARLIEST else lookup.latest(partitions)
        case PerPartition(offsets):
            _check_named(partitions, offsets.keys(), "offsets", "-1 is latest, -2 is earliest")
            return _resolve_named(lookup, offsets)
        case AtTimestamp(timestamp, per_partition):
            if per_partition is None:
                return lookup.at_timestamps(dict.fromkeys(partitions, timestamp))
            _check_named(partitions, per_partition.keys(), "timestamps", "0 is the beginning")
            return lookup.at_timestamps(per_partition)
        case OfGroup(group_id):
            committed = lookup.committed(group_id, partitions)
            return lookup.earliest([partition for partition in partitions if partition not in committed]) | committed


def resolve_start(
    lookup: OffsetLookup, partitions: Collection[TopicPartition], position: Position, missing_is_latest: bool
) -> Offsets:
    offsets = resolve(lookup, partitions, position)
    too_late = [partition for partition, offset in offsets.items() if offset == LATEST]
    if too_late and not missing_is_latest:
        raise OptionError(
            f"no record of {name_partitions(too_late)} is as late as the starting timestamp; choose an earlier one,"
            " or set"
            " startingOffsetsByTimestampStrategy to latest"
        )
    return offsets | lookup.latest(too_late)


def resolve_end(lookup: OffsetLookup, partitions: Collection[TopicPartition], position: Position) -> Offsets:
    offsets = resolve(lookup, partitions, position)
    return offsets | lookup.latest([partition for partition, offset in offsets.items() if offset == LATEST])


def _resolve_named(lookup: OffsetLookup, offsets: Mapping[TopicPartition, int]) -> Offsets:
    earliest = lookup.earliest([partition for partition, offset in offsets.items() if offset == EARLIEST])
    latest = lookup.latest([partition for partition, offset in offsets.items() if offset == LATEST])
    return {**offsets, **earliest, **latest}


def _check_named(
    partitions: Collection[TopicPartition], named: Collection[TopicPartition], what: str, hint: str
) -> None:
    missing, unknown = set(partitions) - set(named), set(named) - set(partitions)
    if missing or unknown:
        wrong = [f"missing are {name_partitions(missing)}"] if missing else []
        wrong += [f"not read are {name_partitions(unknown)}"] if unknown else []
        raise OptionError(f"{what} must be given for exactly the partitions that are read ({hint}); {'; '.join(wrong)}")
