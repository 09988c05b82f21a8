"""The type of JSON objects that have no schema."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.pipelines.tables.type_inference import MOST_DEPTH, Inference, infer_type


def _list(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], pa.int64()),
        ([1, 1.5], pa.float64()),
        ([1.5, 1], pa.float64()),
        ([True, None], pa.bool_()),
        ([True, 1], pa.string()),
        (["a", 1], pa.string()),
        ([None], pa.string()),
        ([2**63], pa.string()),
        ([-(2**63)], pa.int64()),
        ([[1], [2.5], []], _list(pa.float64())),
        ([[]], _list(pa.string())),
        ([[None], None], _list(pa.string())),
        ([[1, "a"]], _list(pa.string())),
        ([[1], {"a": 1}], pa.string()),
        ([[1], 1], pa.string()),
        ([{"a": 1}, "a"], pa.string()),
        ([1, {"a": 1}], pa.string()),
        ([{}], pa.string()),
        ([{"a": 1}, {"b": {"c": "d"}}], pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])),
        ([[{"a": 1}, {"b": [True]}]], _list(pa.struct([("a", pa.int64()), ("b", _list(pa.bool_()))]))),
    ],
)
def test_a_column_has_the_type_that_all_its_values_fit(values: list[Any], kind: pa.DataType) -> None:
    assert infer_type({"x": each} for each in values) == pa.struct([("x", kind)])


def test_members_are_columns_in_the_order_they_were_seen_in() -> None:
    assert infer_type([{"b": 1}, {"a": 1, "b": 2}, {"c": 3}]).names == ["b", "a", "c"]


def test_further_members_are_left_out_when_there_are_too_many() -> None:
    inference = Inference(most_columns=3)
    inference.add({"a": 1, "b": 1, "c": 1, "d": 1})
    assert inference.type().names == ["a", "b", "c"]
    assert inference.left_out == {"d"}


def test_an_object_is_text_when_it_has_too_many_members() -> None:
    kind = infer_type(({"ids": {str(number): number}} for number in range(9)), most_columns=5)
    assert kind == pa.struct([("ids", pa.string())])


def test_values_are_text_when_they_nest_too_deep() -> None:
    value: Any = 1
    for _ in range(MOST_DEPTH + 500):
        value = {"a": value}
    kind, depth = infer_type([value]), 0
    while pa.types.is_struct(kind):
        kind, depth = kind.field(0).type, depth + 1
    assert (kind, depth) == (pa.string(), MOST_DEPTH)


def test_a_member_is_no_column_when_its_name_is_no_text() -> None:
    """A column cannot have half of a surrogate pair in its name, and one such record broke every question."""
    inferred = infer_type([{"a": 1, "\ud800": 2, "b": {"\udfff": 1}}])

    assert inferred == pa.struct([("a", pa.int64()), ("b", pa.string())])
