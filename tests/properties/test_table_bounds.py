"""Bounds are never narrower than the truth: a row that meets the conditions is among the offsets that are read."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from penstock.core.types import TopicPartition
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.pipelines.tables.bounds import AnyOf, Times, bounds_of, plan_reads
from penstock.pipelines.tables.ends import Seen

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
_MOST_MS = 30


@dataclass(frozen=True)
class Record:
    partition: int
    offset: int
    timestamp_ms: int
    key: str | None

    def value(self, column: str) -> Any:
        if column == "_timestamp":
            return _EPOCH + timedelta(milliseconds=self.timestamp_ms)
        return {"_partition": self.partition, "_offset": self.offset, "_key": self.key, "name": self.offset % 3}[column]


def _is_true(condition: Filter, record: Record) -> bool | None:
    """As SQL has it, with None for null."""
    match condition:
        case AnyOf(alternatives):
            return any(all(_is_true(each, record) for each in some) for some in alternatives)
        case Not(child):
            inner = _is_true(child, record)
            return None if inner is None else not inner
        case IsNull((name,)):
            return record.value(name) is None
        case IsNotNull((name,)):
            return record.value(name) is not None
        case EqualNullSafe((name,), expected):
            return bool(record.value(name) == expected)
        case In((name,), values):
            value = record.value(name)
            return None if value is None else value in values
    name, expected = condition.attribute[0], condition.value  # type: ignore[attr-defined]
    value = record.value(name)
    return None if value is None or expected is None else _COMPARE[type(condition)](value, expected)


_literals = {
    "_partition": st.integers(-1, 3),
    "_offset": st.integers(-2, 14),
    "_timestamp": st.integers(-2000, (_MOST_MS + 2) * 1000).map(lambda us: _EPOCH + timedelta(microseconds=us)),
    "_key": st.sampled_from(["a", "b", "c"]),
    "name": st.integers(0, 2),
}


@st.composite
def _simple(draw: st.DrawFn) -> Filter:
    name = draw(st.sampled_from(sorted(_literals)))
    literal = _literals[name]
    kind = draw(st.sampled_from([*_COMPARE, EqualNullSafe, In, IsNull, IsNotNull]))
    if kind in (IsNull, IsNotNull):
        return kind((name,))
    if kind is In:
        return In((name,), tuple(draw(st.lists(literal, min_size=1, max_size=3))))
    compared: Filter = kind((name,), draw(literal))
    return compared


_conditions = st.recursive(
    _simple(),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(
            AnyOf, st.lists(st.lists(inner, min_size=1, max_size=2).map(tuple), min_size=1, max_size=3).map(tuple)
        ),
    ),
    max_leaves=5,
)
_records = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 2), st.integers(0, _MOST_MS), st.sampled_from(["a", "b", None])),
    max_size=25,
)


def _log(drawn: list[tuple[int, int, int, str | None]]) -> list[Record]:
    """Offsets have gaps; times go up and down."""
    ends: dict[int, int] = {}
    log = []
    for partition, step, timestamp_ms, key in drawn:
        ends[partition] = ends.get(partition, -1) + step
        log.append(Record(partition, ends[partition], timestamp_ms, key))
    return log


def _lateness(log: list[Record]) -> int:
    """How much older than one before it a record is, at most."""
    latest: dict[int, int] = {}
    found = 0
    for record in log:
        latest[record.partition] = max(latest.get(record.partition, 0), record.timestamp_ms)
        found = max(found, latest[record.partition] - record.timestamp_ms)
    return found


def _seen(log: list[Record], part: OffsetRange) -> Seen:
    found = [
        each for each in log if each.partition == part.partition.partition and part.start <= each.offset < part.end
    ]
    return Seen([each.offset for each in found], [each.timestamp_ms for each in found])


@settings(max_examples=25)
@given(st.lists(_conditions, max_size=3), _records)
def test_every_row_that_meets_the_conditions_is_read(conditions: list[Filter], drawn: list[Any]) -> None:
    log = _log(drawn)

    def offsets_at(times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {
            partition: min(
                (each.offset for each in log if each.partition == partition.partition and each.timestamp_ms >= time_ms),
                default=None,
            )
            for partition, time_ms in times.items()
        }

    def peek(ranges: Collection[OffsetRange]) -> dict[TopicPartition, Seen]:
        return {part.partition: _seen(log, part) for part in ranges}

    held = [OffsetRange(TopicPartition("t", number), 0, 60) for number in range(3)]
    planned = plan_reads(bounds_of(conditions), held, Times(offsets_at, peek), _lateness(log))
    reads = {part.partition.partition: part for part in planned}

    keys = bounds_of(conditions).keys
    for record in log:
        if all(_is_true(condition, record) for condition in conditions):
            assert record.partition in reads
            assert reads[record.partition].start <= record.offset < reads[record.partition].end
            assert keys is None or record.key in keys
