from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.pipelines.sink.errors import ColumnError
from penstock.pipelines.sink.rows import HEADERS_TYPE, ColumnPlan, first_topic, plan_columns, to_pairs, to_records

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
        ([("key", "string"), ("note", "string")], "t", "column value is missing; .* There are: key, note"),
        ([("value", "string")], None, "set the option topic, or add a column topic"),
        ([("value", "string"), ("Value", "string")], "t", "column value is there twice"),
    ],
)
def test_columns_are_refused_by_name_when_a_topic_cannot_take_them(
    fields: list[tuple[str, str]], topic: str | None, message: str
) -> None:
    with pytest.raises(ColumnError, match=message):
        plan_columns(fields, topic)


@pytest.mark.parametrize("text_type", [pa.string(), pa.large_string(), pa.binary()])
def test_strings_and_bytes_come_out_as_bytes_when_paired(text_type: pa.DataType) -> None:
    rows = batch(value=pa.array(["ä", None], pa.string()), key=pa.array(["k", None], pa.string()).cast(text_type))
    assert list(to_pairs(rows, ColumnPlan(value=0, key=1, fixed_topic="t"))) == [("ä".encode(), b"k"), (None, None)]
    assert list(to_pairs(rows, ColumnPlan(value=0, fixed_topic="t"))) == [("ä".encode(), None), (None, None)]


def test_records_carry_topic_partition_and_headers_when_columns_hold_them() -> None:
    rows = batch(
        value=pa.array([b"1", b"2", b"3"]),
        topic=pa.array(["a", "b", "a"]),
        partition=pa.array([3, None, 0], pa.int32()),
        headers=pa.array([[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None, []], HEADERS),
    )
    plan = plan_columns(
        [("value", "binary"), ("topic", "string"), ("partition", "int"), ("headers", HEADERS_TYPE)], None
    )
    assert list(to_records(rows, plan)) == [
        ("a", b"1", None, 3, [("h", b"x"), ("h", None)]),
        ("b", b"2", None, -1, []),
        ("a", b"3", None, 0, []),
    ]
    assert first_topic(rows, plan) == "a"


def test_the_option_wins_when_rows_have_a_topic_too() -> None:
    rows = batch(value=pa.array([b"1"]), topic=pa.array([None], pa.string()))
    plan = plan_columns([("value", "binary"), ("topic", "string")], "fixed")
    assert [record[0] for record in to_records(rows, plan)] == ["fixed"]


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
        ("headers", pa.array([None, [{"key": None, "value": b""}]], HEADERS), "a header without a key"),
    ],
)
def test_a_row_is_refused_and_shown_when_it_cannot_be_placed(column: str, bad: pa.Array, message: str) -> None:
    columns = {"key": pa.array([b"k1", b"k2"]), "value": pa.array([b"one", b"two"]), column: bad}
    types = {"topic": "string", "partition": "int", "headers": HEADERS_TYPE}
    plan = plan_columns([(name, types.get(name, "binary")) for name in columns], None if column == "topic" else "t")
    with pytest.raises(ColumnError, match=message):
        list(to_records(batch(**columns), plan))
