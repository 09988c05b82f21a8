"""What a question reads of one topic."""

from __future__ import annotations

import pytest

from penstock.pipelines.payloads.formats import BYTES, TEXT, PayloadFormat
from penstock.pipelines.sql.reads import TableRead
from penstock.pipelines.tables.bounds import Bounds
from penstock.pipelines.tables.table import Table


@pytest.mark.parametrize(
    ("key", "asked", "raw"),
    [
        (TEXT, {"a", "é"}, {b"a", "é".encode()}),
        (BYTES, {"a"}, None),
        (TEXT, {"a", "\ud800"}, None),  # half of a surrogate pair: it was an error of the whole question
    ],
)
def test_keys_are_told_from_others_when_equal_text_is_equal_bytes(
    key: PayloadFormat, asked: set[str], raw: set[bytes] | None
) -> None:
    table = Table("t", "t", 1, key, BYTES, (), "", False)

    assert TableRead(table, (), Bounds(keys=frozenset(asked)), (), ()).keys == raw
