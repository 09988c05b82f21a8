"""The names of a table's columns."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from penstock.pipelines.payloads.formats import BYTES, TEXT
from penstock.pipelines.tables.table import OUR_COLUMNS, ColumnSource, Table, make_columns, name_columns


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        (["id", "name"], ["id", "name"]),
        (["_offset", "_KEY", "offset"], ["_offset_", "_KEY_", "offset"]),
        (["_key", "_key_", "_key__"], ["_key_", "_key__", "_key___"]),
        (["a", "A", "a_"], ["a", "A_", "a__"]),
        (["", "_"], ["_", "__"]),
        (["value", "key", "partition"], ["value", "key", "partition"]),
    ],
)
def test_a_field_gets_another_name_when_its_own_is_taken(fields: list[str], names: list[str]) -> None:
    assert name_columns(fields) == names


def test_no_two_columns_have_one_name_in_any_case_when_fields_do() -> None:
    fields = ["_Key", "_key", "_KEY_", "X", "x", "x_", "X__"]
    names = [each.lower() for each in (*name_columns(fields), *OUR_COLUMNS)]
    assert len(set(names)) == len(names)


def test_the_fields_of_a_record_are_columns_and_ours_follow_in_their_order() -> None:
    columns = make_columns(pa.string(), pa.struct([("id", pa.int64()), ("_offset", pa.string())]))
    assert [each.name for each in columns] == ["id", "_offset_", *OUR_COLUMNS]
    assert (columns[1].field, columns[1].source) == ("_offset", ColumnSource.FIELD)
    assert columns[2].type == pa.string()
    assert OUR_COLUMNS == ("_key", "_headers", "_partition", "_offset", "_timestamp")


@pytest.mark.parametrize("kind", [pa.binary(), pa.list_(pa.int32()), pa.struct([])])
def test_a_value_is_one_column_when_it_is_no_record(kind: pa.DataType) -> None:
    columns = make_columns(pa.binary(), kind)
    assert [each.name for each in columns] == ["value", *OUR_COLUMNS]
    assert columns[0].source is ColumnSource.VALUE


def test_a_table_travels_and_finds_columns_in_any_case() -> None:
    columns = make_columns(pa.string(), pa.struct([("Id", pa.int64())]))
    table = pickle.loads(pickle.dumps(Table("t$latest", "t", 3, TEXT, BYTES, columns, "a note", is_latest=True)))
    found = table.column("iD")
    assert found is not None
    assert (found.name, found.is_ours) == ("Id", False)
    assert table.column("no") is None
    assert table.arrow_schema(["_offset", "Id"]) == pa.schema([("_offset", pa.int64()), ("Id", pa.int64())])
    with pytest.raises(KeyError):
        table.choose(["no"])
