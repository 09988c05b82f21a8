"""The offsets of a topic that a query can be about: its conditions as bounds, and bounds as ranges of offsets. Pure.

Conditions are the filters of pyspark.sql.datasource, whether Spark pushes them down to a data source or they were read
from a plan. Bounds are never narrower than the truth: every row that meets the conditions is inside them, and a
condition that is not understood bounds nothing. Spark filters the rows again, so wider bounds cost time only.

A time's beginning is exact: Kafka finds the first record of that time or later. Its end is not, because a producer may
send a record that is older than the ones before it. `lateness_ms` is how much older, see `decide_lateness`. Nor is
the first record of a later time the end, because that one may be ahead of all others, see `ends`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any, Final, TypeAlias

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from penstock.core.types import TopicPartition
from penstock.pipelines.kafka.offsets_json import Offsets
from penstock.pipelines.options import ANY_LATENESS_MS
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.pipelines.source.offsets import LATEST
from penstock.pipelines.tables.ends import Peek, find_ends

# Returns the first offsets of these times or later, in milliseconds; None or LATEST where no record is that late. The
# answer has every partition of the request.
OffsetsAt: TypeAlias = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int | None]]


@dataclass(frozen=True, slots=True)
class Times:
    """A cluster's knowledge of times: it is an `OffsetsAt` that shows the records at those offsets, too. Without a look
    at them no end is known, so bounds on times have no effect at their end."""

    offsets_at: OffsetsAt
    peek: Peek

    def __call__(self, times_ms: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None]:
        return self.offsets_at(times_ms)


PARTITION: Final = "_partition"
OFFSET: Final = "_offset"
TIMESTAMP: Final = "_timestamp"
KEY: Final = "_key"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Kafka's times are 64-bit milliseconds. A bound beyond them is no bound, and asking for it would be refused.
_LATEST_MS = 2**63 - 1
# Kafka's way to say that message.timestamp.before.max.ms and message.timestamp.after.max.ms allow everything.
_UNBOUNDED_MS = 2**63 - 1
# How far apart the clocks of brokers may be when another one becomes the leader.
_CLOCK_SKEW_MS = 60_000


@dataclass(frozen=True)
class AnyOf(Filter):
    """Rows that meet all filters of at least one alternative. Spark's data sources have no word for OR."""

    alternatives: tuple[tuple[Filter, ...], ...]


@dataclass(frozen=True)
class Interval:
    """Whole numbers from `start` until before `end`; None is without a bound."""

    start: int | None = None
    end: int | None = None

    @property
    def is_empty(self) -> bool:
        return self.start is not None and self.end is not None and self.start >= self.end

    def __and__(self, other: Interval) -> Interval:
        return Interval(_of_both(max, self.start, other.start), _of_both(min, self.end, other.end))

    def __or__(self, other: Interval) -> Interval:
        """The smallest interval that holds both."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        start = None if self.start is None or other.start is None else min(self.start, other.start)
        end = None if self.end is None or other.end is None else max(self.end, other.end)
        return Interval(start, end)

    def widened(self, by: int) -> Interval:
        return Interval(None if self.start is None else self.start - by, None if self.end is None else self.end + by)


EVERYTHING: Final = Interval()
_NOTHING: Final = Interval(0, 0)


@dataclass(frozen=True)
class Bounds:
    """The common bounds of a query's rows. `partitions` and `keys` are None where all are possible."""

    partitions: frozenset[int] | None = None
    offsets: Interval = EVERYTHING
    timestamps_us: Interval = EVERYTHING
    keys: frozenset[Any] | None = None  # values of _key; rows with others may be left out before they are decoded

    @property
    def is_empty(self) -> bool:
        """No row can meet the conditions."""
        sets = (self.partitions, self.keys)
        return (
            self.offsets.is_empty or self.timestamps_us.is_empty or any(some is not None and not some for some in sets)
        )

    def __and__(self, other: Bounds) -> Bounds:
        return Bounds(
            _intersection(self.partitions, other.partitions),
            self.offsets & other.offsets,
            self.timestamps_us & other.timestamps_us,
            _intersection(self.keys, other.keys),
        )

    def __or__(self, other: Bounds) -> Bounds:
        return hull(self, other)


UNBOUNDED: Final = Bounds()
_NO_ROWS: Final = Bounds(offsets=_NOTHING)


def hull(one: Bounds, other: Bounds) -> Bounds:
    """Bounds of the rows of both: for OR, and for a table that a question names twice."""
    if one.is_empty or other.is_empty:
        return other if one.is_empty else one
    return Bounds(
        _union(one.partitions, other.partitions),
        one.offsets | other.offsets,
        one.timestamps_us | other.timestamps_us,
        _union(one.keys, other.keys),
    )


def bounds_of(filters: Sequence[Filter]) -> Bounds:
    """The bounds of rows that meet all of `filters`."""
    return reduce(Bounds.__and__, map(_bounds_of_one, filters), UNBOUNDED)


def _bounds_of_one(condition: Filter) -> Bounds:
    match condition:
        case AnyOf(alternatives):
            return reduce(hull, map(bounds_of, alternatives), _NO_ROWS)
        case Not(child):
            return _bounds_of_negation(child)
        case IsNull((name,)):
            return _NO_ROWS if name in (PARTITION, OFFSET) else UNBOUNDED
        case EqualNullSafe((name,), None):
            return _bounds_of_one(IsNull((name,)))
        case EqualTo((name,), value) | EqualNullSafe((name,), value):
            return _bounds_of_values(name, (value,))
        case In((name,), values):
            return _bounds_of_values(name, values)
        case GreaterThan((name,), value):
            return _bounds_of_range(name, value, lambda number: Interval(number + 1, None))
        case GreaterThanOrEqual((name,), value):
            return _bounds_of_range(name, value, lambda number: Interval(number, None))
        case LessThan((name,), value):
            return _bounds_of_range(name, value, lambda number: Interval(None, number))
        case LessThanOrEqual((name,), value):
            return _bounds_of_range(name, value, lambda number: Interval(None, number + 1))
    return UNBOUNDED


def _bounds_of_negation(child: Filter) -> Bounds:
    """NOT of a comparison is the opposite comparison: neither is true of null. NOT of AnyOf bounds nothing: its
    alternatives may lack conditions that were not understood."""
    match child:
        case Not(grandchild):
            return _bounds_of_one(grandchild)
        case GreaterThan(column, value):
            return _bounds_of_one(LessThanOrEqual(column, value))
        case GreaterThanOrEqual(column, value):
            return _bounds_of_one(LessThan(column, value))
        case LessThan(column, value):
            return _bounds_of_one(GreaterThanOrEqual(column, value))
        case LessThanOrEqual(column, value):
            return _bounds_of_one(GreaterThan(column, value))
    return UNBOUNDED


def _bounds_of_values(name: str, values: Sequence[Any]) -> Bounds:
    if name == KEY:
        is_plain = all(isinstance(value, str | bytes) for value in values)
        return Bounds(keys=frozenset(values)) if is_plain else UNBOUNDED
    found = [_number_of(name, value) for value in values if value is not None]  # nothing equals null
    numbers = [number for number in found if number is not None]
    if len(numbers) < len(found) or name not in (PARTITION, OFFSET, TIMESTAMP):
        return UNBOUNDED
    if not numbers:
        return _NO_ROWS
    if name == PARTITION:
        return Bounds(partitions=frozenset(numbers))
    return _bounds_of_interval(name, Interval(min(numbers), max(numbers) + 1))


def _bounds_of_range(name: str, value: Any, interval_of: Callable[[int], Interval]) -> Bounds:
    number = _number_of(name, value)
    return UNBOUNDED if number is None else _bounds_of_interval(name, interval_of(number))


def _bounds_of_interval(name: str, interval: Interval) -> Bounds:
    match name:
        case "_offset":
            return Bounds(offsets=interval)
        case "_timestamp":
            return Bounds(timestamps_us=interval)
        case "_partition" if interval.end is not None and interval.end <= _MOST_PARTITIONS:
            return Bounds(partitions=frozenset(range(max(0, interval.start or 0), max(0, interval.end))))
    return UNBOUNDED


# `_partition < 10` becomes a set of partitions; with a greater bound, or none, all partitions are read.
_MOST_PARTITIONS = 10_000


def _number_of(name: str, value: Any) -> int | None:
    """The value as the column counts: offsets and partitions as such, times in microseconds since 1970."""
    if name == TIMESTAMP:
        is_instant = isinstance(value, datetime) and value.tzinfo is not None
        return (value - _EPOCH) // _MICROSECOND if is_instant else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def decide_lateness(config: Mapping[str, str], allowance_ms: int) -> tuple[int, bool]:
    """How much older than the records before it a record of a topic may be, in milliseconds, and whether that follows
    from settings of the topic.

    Brokers give the times of LogAppendTime topics, one after the other, by their own clocks: that of a new leader may
    be behind that of the last one, so a minute is allowed for. Elsewhere `before.max` and `after.max`, where they are
    set, bound how far a record's time is from its broker's: a record that is `after.max` early may come before one that
    is `before.max` late. Without such bounds, or with wider ones, the user's allowance counts. An allowance for any
    lateness is taken at its word, since a topic may hold records from before its settings.
    """
    if allowance_ms >= ANY_LATENESS_MS:
        return ANY_LATENESS_MS, True
    if config.get("message.timestamp.type") == "LogAppendTime":
        return _CLOCK_SKEW_MS, True
    before = int(config.get("message.timestamp.before.max.ms", _UNBOUNDED_MS))
    after = int(config.get("message.timestamp.after.max.ms", _UNBOUNDED_MS))
    return (before + after, True) if before + after <= allowance_ms else (allowance_ms, False)


def below_latest(bounds: Bounds) -> Bounds:
    """The conditions that may bound the search for the latest record of each key: those on keys alone, which leave all
    records of a key or none. Under any other bound, such as a partition, an older record would come back for a key
    whose latest record lies outside."""
    return Bounds(keys=bounds.keys)


def plan_reads(
    bounds: Bounds, held: Iterable[OffsetRange], offsets_at: OffsetsAt, lateness_ms: int = 0
) -> list[OffsetRange]:
    """The offsets to read of one topic. `held` is what its partitions hold, with the ends that were fixed before.

    Asks for times only where the bounds have some; their ends bound what is read if `offsets_at` is `Times`. Bounds
    beyond the log are clipped; partitions of which nothing is read are left out.
    """
    if bounds.is_empty:
        return []
    ranges = {
        part.partition: OffsetRange(part.partition, *_clipped(part, bounds.offsets))
        for part in held
        if bounds.partitions is None or part.partition.partition in bounds.partitions
    }
    return sorted(_bounded_by_time(_filled(ranges), bounds.timestamps_us, offsets_at, lateness_ms).values())


def _bounded_by_time(
    ranges: dict[TopicPartition, OffsetRange], times_us: Interval, offsets_at: OffsetsAt, lateness_ms: int
) -> dict[TopicPartition, OffsetRange]:
    if times_us.start is not None and times_us.start > 0:
        first_ms = -(-times_us.start // 1000)
        if first_ms > _LATEST_MS:
            return {}
        # Where no record is that late, there was none before the end that was fixed earlier, either.
        found = _ask(offsets_at, ranges, first_ms)
        ranges = {key: part._replace(start=max(part.start, found.get(key, part.end))) for key, part in ranges.items()}
        ranges = _filled(ranges)
    if times_us.end is not None:
        before_ms = -(-times_us.end // 1000)
        if before_ms + lateness_ms < 0:
            return {}
        if before_ms + lateness_ms <= _LATEST_MS and isinstance(offsets_at, Times):
            ranges = _ended(ranges, before_ms, lateness_ms, offsets_at)
    return _filled(ranges)


def _ended(
    ranges: dict[TopicPartition, OffsetRange], before_ms: int, lateness_ms: int, times: Times
) -> dict[TopicPartition, OffsetRange]:
    found = _ask(times, ranges, before_ms + lateness_ms)
    behind = [
        part._replace(start=max(part.start, found[key]))
        for key, part in ranges.items()
        if found.get(key, part.end) < part.end
    ]
    ends = find_ends(behind, before_ms, lateness_ms, times.peek) if behind else {}
    return {key: part._replace(end=ends.get(key, part.end)) for key, part in ranges.items()}


def _ask(offsets_at: OffsetsAt, partitions: Collection[TopicPartition], time_ms: int) -> Offsets:
    """The first offsets of this time or later, without partitions that have none. `offsets_at` answers for each
    partition, so that none is taken for one without late records."""
    found = offsets_at(dict.fromkeys(partitions, time_ms)) if partitions else {}
    assert found.keys() >= set(partitions)
    return {partition: offset for partition, offset in found.items() if offset is not None and offset != LATEST}


def _filled(ranges: Mapping[TopicPartition, OffsetRange]) -> dict[TopicPartition, OffsetRange]:
    return {partition: part for partition, part in ranges.items() if part.size > 0}


def _clipped(part: OffsetRange, offsets: Interval) -> tuple[int, int]:
    start = part.start if offsets.start is None else max(part.start, offsets.start)
    return start, part.end if offsets.end is None else min(part.end, offsets.end)


def _of_both(choose: Callable[[int, int], int], one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)


def _intersection(one: frozenset[Any] | None, other: frozenset[Any] | None) -> frozenset[Any] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _union(one: frozenset[Any] | None, other: frozenset[Any] | None) -> frozenset[Any] | None:
    return None if one is None or other is None else one | other
