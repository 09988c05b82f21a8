"""Moving a group's offsets: which partitions, where to, as a plan that can be shown before anything is changed.

The rules are those of kafka-consumer-groups: a new offset outside of the log is moved to its nearest end, a time that
no record reaches means the end, and `--to-current` of a partition without a commit means the end as well.
"""

from __future__ import annotations

import csv
import enum
import io
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.cli.errors import CliError, UsageError
from penstock.cli.text import parse_partitions
from penstock.core.types import TopicPartition


class ResetKind(enum.Enum):
    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    OFFSET = "--to-offset"
    TIME = "--to-datetime"  # also --by-duration, which is a time counted back from now
    SHIFT = "--shift-by"
    CURRENT = "--to-current"
    FILE = "--from-file"


class Reset(NamedTuple):
    kind: ResetKind
    number: int = 0  # the offset, the distance, or the time in ms


class PartitionState(NamedTuple):
    committed: int | None
    log: range  # first and next offset
    at_time: int | None = None  # the first offset at or after the asked time; below 0: none
    from_file: int | None = None


class PlannedOffset(NamedTuple):
    key: TopicPartition
    old: int | None
    new: int
    note: str = ""


def plan_reset(reset: Reset, states: Mapping[TopicPartition, PartitionState]) -> list[PlannedOffset]:
    plan = []
    for key, state in sorted(states.items()):
        wanted = _wanted_offset(reset, key, state)
        new = min(max(wanted, state.log.start), state.log.stop)
        note = "" if new == wanted else f"{wanted} is outside of the log"
        plan.append(PlannedOffset(key, state.committed, new, note))
    return plan


def _wanted_offset(reset: Reset, key: TopicPartition, state: PartitionState) -> int:
    match reset.kind:
        case ResetKind.EARLIEST:
            return state.log.start
        case ResetKind.LATEST:
            return state.log.stop
        case ResetKind.OFFSET:
            return reset.number
        case ResetKind.TIME:
            return state.log.stop if state.at_time is None or state.at_time < 0 else state.at_time
        case ResetKind.CURRENT:
            return state.log.stop if state.committed is None else state.committed
        case ResetKind.FILE:
            assert state.from_file is not None, "only partitions of the file are planned"
            return state.from_file
        case ResetKind.SHIFT:
            if state.committed is None:
                raise CliError(
                    f"{key} has no committed offset to shift", "Leave it out of --topic, or use --to-offset."
                )
            return state.committed + reset.number


class TopicSelection(NamedTuple):
    topic: str
    partitions: tuple[int, ...] | None  # None: all of them


def parse_topic_selection(text: str) -> TopicSelection:
    """`orders` or `orders:0,2,5-7`."""
    topic, colon, partitions = text.partition(":")
    if not topic or (colon and not partitions):
        raise UsageError(f"{text!r} names no topic", "Write TOPIC or TOPIC:0,1,2.")
    return TopicSelection(topic, tuple(parse_partitions(partitions)) if colon else None)


def select_partitions(
    selections: Iterable[TopicSelection], existing: Mapping[str, Iterable[int]]
) -> list[TopicPartition]:
    chosen: set[TopicPartition] = set()
    for topic, partitions in selections:
        available = set(existing[topic])
        missing = sorted(set(partitions or ()) - available)
        if missing:
            raise CliError(f"topic {topic} has no partition {missing[0]}")
        chosen.update(TopicPartition(topic, partition) for partition in partitions or available)
    return sorted(chosen)


def parse_reset_file(text: str, group: str) -> dict[TopicPartition, int]:
    """Lines `topic,partition,offset`, or `group,topic,partition,offset` of which only `group` counts."""
    offsets: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) == 4 and cells.pop(0) != group:
            continue
        if len(cells) != 3 or not cells[0] or not cells[1].isdigit() or not cells[2].isdigit():
            raise UsageError(f"line {number} of the file is not topic,partition,offset")
        offsets[TopicPartition(cells[0], int(cells[1]))] = int(cells[2])
    if not offsets:
        raise UsageError(f"the file has no offsets for group {group}")
    return offsets


def export_plan(plan: Iterable[PlannedOffset]) -> str:
    """The plan in the form that --from-file reads."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for planned in plan:
        writer.writerow((planned.key.topic, planned.key.partition, planned.new))
    return text.getvalue()


def choose_reset(
    *,
    to_earliest: bool = False,
    to_latest: bool = False,
    to_current: bool = False,
    to_offset: int | None = None,
    to_time_ms: int | None = None,
    shift_by: int | None = None,
    from_file: bool = False,
) -> Reset:
    """Exactly one way must be given."""
    given: list[Reset] = []
    flags = {
        ResetKind.EARLIEST: to_earliest,
        ResetKind.LATEST: to_latest,
        ResetKind.CURRENT: to_current,
        ResetKind.FILE: from_file,
    }
    given.extend(Reset(kind) for kind, chosen in flags.items() if chosen)
    numbers = {ResetKind.OFFSET: to_offset, ResetKind.TIME: to_time_ms, ResetKind.SHIFT: shift_by}
    given.extend(Reset(kind, number) for kind, number in numbers.items() if number is not None)
    if len(given) != 1:
        ways = ", ".join(kind.value for kind in ResetKind)
        raise UsageError("say in exactly one way where to", f"One of {ways}, --by-duration.")
    return given[0]
