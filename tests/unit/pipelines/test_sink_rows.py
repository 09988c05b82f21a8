from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.pipelines.topic_writing.errors import ColumnError
from penstock.pipelines.topic_writing.rows import (
    ANY_PARTITION,
    HEADERS_TYPE,
    ColumnPlan,
    Places,
    find_headers,
    find_places,
    find_timestamps,
    first_topic,
    plan_columns,
)

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def test_columns_are_found_when_named_in_any_case_among_others() -> None:
    fields = [("id", "bigint"), ("VALUE", "string"), ("Key", "binary"), ("headers", HEADERS_TYPE), ("partition", "int")]
    assert plan_columns(fields, "t") == ColumnPlan(value=1, key=2, headers=3, partition=4, fixed_topic="t")


@pytest.mark.parametrize(
    ("fields", "topic", "message"),
    [
        ([("value", "bigint")], "t", "column value is of type bigint; it accepts string or binary"),
        ([("value", "string"), ("key", "int")], "t", "column key is of type int; it accepts string or binary"),
        ([("value", "string"), ("partition", "bigint")], "t", "column partition is of type bigint; it accepts int"),
        ([("value", "string"), ("topic", "binary")], "t", "column topic is of type binary; it accepts string"),
        (
            [("value", "string"), ("headers", "map<string,binary>")],
            "t",
            "column headers .* accepts array<struct<key:string",
        ),
        ([("value", "string"), ("timestamp", "string")], "t", "column timestamp .* it accepts timestamp or bigint"),
        ([("key", "string"), ("note", "string")], "t", "column value is missing; .* There are: key, note"),
        ([("value", "string")], None, "set the option topic, or add a column topic"),
        ([("value", "string"), ("Value", "string")], "t", "column value is there twice"),
    ],
)
def test_columns_are_refused_by_name_when_a_topic_cannot_take_them(
    fields: list[tuple[str, str]], topic: str | None, message: str
) -> None:
    with pytest.raises(ColumnError, match=message):
        plan_columns(fields, topic, includes_timestamp=True)


def groups_of(places: Places, rows: int) -> list[tuple[str, int, list[int]]]:
    return [
        (topic, partition, list(range(rows))[at] if isinstance(at, slice) else at.tolist())
        for topic, partition, at in places.groups()
    ]


def test_rows_stay_in_order_within_each_place_when_columns_say_where_they_go() -> None:
    rows = batch(
        value=pa.array([b""] * 6),
        topic=pa.array(["b", "a", "b", "b", "a", "b"]),
        partition=pa.array([3, 0, None, 3, 0, None], pa.int32()),
    )
    plan = plan_columns([("value", "binary"), ("topic", "string"), ("partition", "int")], None)
    places = find_places(rows, plan)
    assert groups_of(places, 6) == [("b", ANY_PARTITION, [2, 5]), ("b", 3, [0, 3]), ("a", 0, [1, 4])]
    assert places.is_mixed
    assert first_topic(rows, plan) == "b"
    assert first_topic(rows.slice(1), plan) == "a"
    assert groups_of(find_places(rows.slice(3), plan), 3) == [("b", ANY_PARTITION, [2]), ("b", 3, [0]), ("a", 0, [1])]
    assert groups_of(find_places(rows.slice(0, 0), plan), 0) == []


def test_the_option_wins_when_rows_have_a_topic_too() -> None:
    rows = batch(value=pa.array([b"1", b"2"]), topic=pa.array([None, "t"], pa.string()))
    places = find_places(rows, plan_columns([("value", "binary"), ("topic", "string")], "fixed"))
    assert groups_of(places, 2) == [("fixed", ANY_PARTITION, [0, 1])]
    assert not places.is_mixed


def test_headers_are_counted_row_by_row_when_some_rows_have_none() -> None:
    pairs = [{"key": "h", "value": b"x"}, {"key": "h", "value": None}]
    rows = batch(value=pa.array([b""] * 5), headers=pa.array([pairs, None, [], pairs[:1], None], HEADERS))
    plan = ColumnPlan(value=0, headers=1, fixed_topic="t")
    found = find_headers(rows, plan)
    assert found is not None
    assert (found.counts.tolist(), found.names.to_pylist(), found.values.to_pylist()) == (
        [2, 0, 0, 1, 0],
        ["h", "h", "h"],
        [b"x", None, b"x"],
    )
    sliced = find_headers(rows.slice(1, 3), plan)
    assert sliced is not None
    assert (sliced.counts.tolist(), sliced.values.to_pylist()) == ([0, 0, 1], [b"x"])
    assert find_headers(rows.slice(1, 2), plan) is None
    assert find_headers(rows, ColumnPlan(value=0, fixed_topic="t")) is None


def test_times_are_whole_milliseconds_and_nulls_are_now_when_rows_have_times() -> None:
    plan = ColumnPlan(value=0, timestamp=1, fixed_topic="t")
    given = pa.array([1_700_000_000_123_999, None, 0, 999], pa.timestamp("us", "UTC"))
    rows = batch(value=pa.array([b""] * 4), timestamp=given)
    found = find_timestamps(rows, plan)
    assert found is not None
    assert found.tolist() == [1_700_000_000_123, 0, 1, 1]  # librdkafka takes 0 for now
    sliced = find_timestamps(rows.slice(2), plan)
    assert sliced is not None
    assert sliced.tolist() == [1, 1]
    assert find_timestamps(rows.slice(1, 1), plan) is None
    assert find_timestamps(rows, ColumnPlan(value=0, fixed_topic="t")) is None
    numbers = find_timestamps(batch(value=pa.array([b""] * 2), timestamp=pa.array([5, None], pa.int64())), plan)
    assert numbers is not None
    assert numbers.tolist() == [5, 0]


@pytest.mark.parametrize(
    ("column", "bad", "message"),
    [
        ("topic", pa.array(["t", None]), "column topic is null in the row with topic None, key b'k2', value b'two'"),
        ("topic", pa.array(["t", ""]), "column topic is empty in the row with topic '', key b'k2'"),
        (
            "partition",
            pa.array([0, -2], pa.int32()),
            "column partition is -2 in the row with .* accepts 0 and above, or null",
        ),
        ("timestamp", pa.array([5, -1], pa.int64()), "column timestamp is before 1970 in the row with .* timestamp -1"),
        ("headers", pa.array([None, [{"key": None, "value": b""}]], HEADERS), "a header without a key"),
        ("headers", pa.array([None, [{"key": "a\0b", "value": b""}]], HEADERS), "a key with a null character"),
    ],
)
def test_a_row_is_refused_and_shown_when_it_cannot_be_placed(column: str, bad: pa.Array, message: str) -> None:
    columns = {"key": pa.array([b"k1", b"k2"]), "value": pa.array([b"one", b"two"]), column: bad}
    types = {"topic": "string", "partition": "int", "headers": HEADERS_TYPE, "timestamp": "bigint"}
    fields = [(name, types.get(name, "binary")) for name in columns]
    plan = plan_columns(fields, None if column == "topic" else "t", includes_timestamp=True)
    rows = batch(**columns)
    with pytest.raises(ColumnError, match=message):
        assert (find_places(rows, plan), find_headers(rows, plan), find_timestamps(rows, plan)) is None
