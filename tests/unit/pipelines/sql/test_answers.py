"""Rows that are computed once, whoever wants to know whether there are some."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.pipelines.sql.answers import peek

SCHEMA = pa.schema([("a", pa.int64())])


class Counted:
    """Rows that say how often they are computed."""

    def __init__(self, *batches: list[int]) -> None:
        self.schema = SCHEMA
        self.computed = 0
        self._batches = [pa.record_batch({"a": pa.array(values, pa.int64())}) for values in batches]

    def batches(self) -> Iterator[pa.RecordBatch]:
        self.computed += 1
        yield from self._batches

    def head(self, count: int) -> pa.Table:
        raise AssertionError("this would compute rows again")


def test_there_is_nothing_to_show_when_no_batch_has_rows() -> None:
    assert peek(Counted()) is None
    assert peek(Counted([], [])) is None


def test_all_rows_are_there_when_somebody_has_looked_whether_there_are_some() -> None:
    rows = Counted([], [1, 2], [], [3])
    found = peek(rows)
    assert found is not None
    assert [value for batch in found.batches() for value in batch.column(0).to_pylist()] == [1, 2, 3]
    assert rows.computed == 1


def test_the_first_rows_are_taken_when_a_table_shows_no_more() -> None:
    for count, expected in ((2, [1, 2]), (3, [1, 2, 3]), (9, [1, 2, 3, 4])):
        found = peek(Counted([1, 2], [3, 4]))
        assert found is not None
        assert found.head(count).column(0).to_pylist() == expected
