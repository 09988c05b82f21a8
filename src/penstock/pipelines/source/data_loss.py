"""Records that should be read and are gone: what is noticed, in which words, and what is read instead. Pure."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.core.types import TopicPartition
from penstock.pipelines.source.offset_ranges import OffsetRange

logger = logging.getLogger(__name__)

ADVICE = (
    "The records were deleted by retention or with their topic before they were read. To go on with what is there,"
    " set the option failOnDataLoss to false (streams: fail_on_data_loss=False); to begin anew, use another checkpoint"
)


class DataLossError(RuntimeError):
    """Records between two offsets cannot be read any more, and failOnDataLoss is true."""


def report(losses: list[str], fail_on_data_loss: bool) -> None:
    """Raises DataLossError, or only warns if `fail_on_data_loss` is false."""
    if losses and fail_on_data_loss:
        raise DataLossError(f"{'; '.join(losses)}. {ADVICE}.")
    for loss in losses:
        logger.warning("data loss: %s; going on because failOnDataLoss is false", loss)


@dataclass(frozen=True, slots=True)
class PlannedRanges:
    ranges: list[OffsetRange]
    losses: list[str] = field(default_factory=list)


def find_unknown_starts(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> set[TopicPartition]:
    """Partitions whose beginning is needed: new ones, and those that were made anew."""
    return {partition for partition, until in end.items() if until < start.get(partition, until + 1)}


def plan_ranges(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], earliest: Mapping[TopicPartition, int]
) -> PlannedRanges:
    """The ranges of a micro-batch. `earliest` holds the partitions of `find_unknown_starts` that are still there.

    A partition that was not in `start` is new and begins at its earliest record. The tasks find out whether the other
    records are still there, when they read them.
    """
    ranges: list[OffsetRange] = []
    losses = [_gone(partition, start[partition]) for partition in sorted(start.keys() - end.keys())]
    unknown = find_unknown_starts(start, end)
    for partition, until in sorted(end.items()):
        if partition not in unknown:
            ranges.append(OffsetRange(partition, start[partition], until))
        elif partition not in earliest:
            losses.append(_gone(partition, start.get(partition, 0)))
        else:
            first = earliest[partition]
            if partition in start and first > until:  # a first batch that comes again
                losses.append(f"{_name(partition)}: all before offset {until} is no longer there, it begins at {first}")
            elif partition in start:
                losses.append(_went_back(partition, start[partition], until))
            elif first > 0:
                losses.append(f"new partition {partition} begins at offset {first}, not at 0")
            ranges.append(OffsetRange(partition, min(first, until), until))
    return PlannedRanges(ranges, losses)


def find_backward_steps(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    """Partitions whose end lies before the offsets read already: a stale answer, or a topic that was made anew."""
    return [partition for partition, end in sorted(latest.items()) if end < start.get(partition, 0)]


def explain_missing(part: OffsetRange, offset: int, log_start_offset: int, log_end_offset: int) -> str:
    """The error of a task whose `offset` the broker refused as out of range."""
    if offset < log_start_offset:
        return _expired(part.partition, offset, min(log_start_offset, part.end))
    return _went_back(part.partition, offset, max(log_end_offset, 0))


def explain_gone(part: OffsetRange, offset: int) -> str:
    return _gone(part.partition, offset)


def _gone(partition: TopicPartition, offset: int) -> str:
    return f"{_name(partition)} is gone; it was read up to offset {offset}"


def _expired(partition: TopicPartition, wanted: int, first: int) -> str:
    return f"{_name(partition)}: offsets {wanted} to {first - 1} are no longer there ({first - wanted} offsets)"


def _went_back(partition: TopicPartition, wanted: int, end: int) -> str:
    return (
        f"{_name(partition)} ends at offset {end}, before offset {wanted} which is next to be read; the topic was"
        " probably deleted and created again"
    )


def _name(partition: TopicPartition) -> str:
    return f"topic {partition.topic} partition {partition.partition}"
