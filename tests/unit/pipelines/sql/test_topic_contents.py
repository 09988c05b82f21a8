"""What may be written beside the records that a topic holds."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from penstock.pipelines.errors import SqlError
from penstock.pipelines.sql.records import Encoding, EncodingRequest, choose_encoding, find_roles
from penstock.pipelines.tables.topic_contents import TopicContents

ROWS = StructType().add("id", LongType())
RAW = StructType().add("value", StringType())


def choose(rows: StructType, contents: TopicContents, named: str = "") -> Encoding:
    return choose_encoding(rows, find_roles(rows, "t"), EncodingRequest("t", named, contents=lambda: contents))


@pytest.mark.parametrize("contents", [TopicContents.NOTHING, TopicContents.JSON])
def test_rows_are_json_when_the_topic_holds_nothing_else(contents: TopicContents) -> None:
    assert choose(ROWS, contents) == Encoding()


def test_an_insert_is_refused_when_the_topic_holds_bytes() -> None:
    with pytest.raises(SqlError, match="neither JSON objects nor have a schema") as caught:
        choose(ROWS, TopicContents.OTHER)
    assert "--schema-format" in caught.value.hint


def test_an_insert_is_refused_when_records_name_schemas_and_no_subject_is_known() -> None:
    with pytest.raises(SqlError, match="no subject"):
        choose(ROWS, TopicContents.SCHEMAS)


def test_rows_are_written_beside_bytes_when_they_are_text_or_a_format_is_named() -> None:
    assert choose(RAW, TopicContents.OTHER).is_raw
    assert choose(ROWS, TopicContents.OTHER, "json") == Encoding()
