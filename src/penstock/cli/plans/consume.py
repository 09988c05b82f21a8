"""Where a consumer starts and when it has seen enough: decisions without a client."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.cli.errors import UsageError
from penstock.cli.times import TIME_FORMS, parse_time_ms
from penstock.core.types import TopicPartition

# A bare number from here on is a time: in milliseconds it lies in 1973, and no partition numbers its records so high.
FIRST_TIMESTAMP = 100_000_000_000

_EDGES = {"beginning": "earliest", "earliest": "earliest", "end": "latest", "latest": "latest"}


class StartKind(enum.Enum):
    BEGINNING = "earliest"
    END = "latest"
    OFFSET = "offset"
    LAST = "last"  # this many records before the end
    TIME = "time"


class Start(NamedTuple):
    kind: StartKind
    number: int = 0


def parse_start(text: str, now_ms: int) -> Start:
    """`beginning`, `end`, an offset, `-N` for the last N records of each partition, or a time."""
    if text in _EDGES:
        return Start(StartKind(_EDGES[text]))
    if re.fullmatch(r"-\d+", text):
        return Start(StartKind.LAST, int(text[1:]))
    if text.isascii() and text.isdigit() and int(text) < FIRST_TIMESTAMP:
        return Start(StartKind.OFFSET, int(text))
    try:
        return Start(StartKind.TIME, parse_time_ms(text, now_ms))
    except UsageError:
        raise UsageError(
            f"{text!r} is not a place to start from",
            f"Write beginning, end, an offset, -N for the last N records, or a time: {TIME_FORMS}.",
        ) from None


def plan_start(
    start: Start, ranges: Mapping[TopicPartition, range], by_time: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The first offset to read of each partition, always within what the partition holds.

    `by_time` has the offsets that belong to a start by time; below 0 means that every record is older: the end.
    """
    offsets = {}
    for key, span in ranges.items():
        wanted = {
            StartKind.BEGINNING: span.start,
            StartKind.END: span.stop,
            StartKind.OFFSET: start.number,
            StartKind.LAST: span.stop - start.number,
            StartKind.TIME: by_time.get(key, -1),
        }[start.kind]
        if start.kind is StartKind.TIME and wanted < 0:
            wanted = span.stop
        offsets[key] = min(max(wanted, span.start), span.stop)
    return offsets


@dataclass(slots=True)
class Remaining:
    """Partitions whose end, as it was when the command started, is not reached yet."""

    ends: dict[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def plan(cls, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Remaining:
        return cls({key: ends[key] for key, start in starts.items() if start < ends[key]})

    def wants(self, key: TopicPartition, offset: int) -> bool:
        """Whether the record at `offset` was there when the command started."""
        return offset < self.ends.get(key, 0)

    def passed(self, key: TopicPartition, next_offset: int) -> bool:
        """Notes that everything before `next_offset` was seen; True when this ends the partition."""
        if key in self.ends and next_offset >= self.ends[key]:
            del self.ends[key]
            return True
        return False

    @property
    def is_done(self) -> bool:
        return not self.ends


@dataclass(slots=True)
class GroupEnds:
    """The same for a member of a group, whose partitions come and go: each must have been at its end once."""

    assigned: set[TopicPartition] | None = None  # None until the first assignment
    reached: set[TopicPartition] = field(default_factory=set)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self.assigned = set(partitions)
        self.reached &= self.assigned

    def at_end(self, key: TopicPartition) -> None:
        self.reached.add(key)

    @property
    def is_done(self) -> bool:
        return self.assigned is not None and self.assigned <= self.reached


def check_options(
    topics: int, group: str | None, partitions: str | None, start: Start | None, *, as_json: bool, has_format: bool
) -> None:
    if group is not None and partitions is not None:
        raise UsageError("a group shares out the partitions itself", "Drop --group or --partition.")
    if group is not None and start is not None and start.kind not in (StartKind.BEGINNING, StartKind.END):
        raise UsageError(
            "a group starts at its committed offsets",
            "Move them first: penstock groups reset-offsets GROUP --topic TOPIC --to-offset N --execute",
        )
    if partitions is not None and topics > 1:
        raise UsageError("--partition goes with one topic only")
    if as_json and has_format:
        raise UsageError("--json and --format exclude each other")
