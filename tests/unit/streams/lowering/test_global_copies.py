"""A global table in a worker's memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pytest

from penstock.core.types import TopicPartition
from penstock.pipelines.payloads.formats import BYTES, TEXT, PayloadFormat, PayloadKind
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.streams.lowering.global_copies import GlobalCopy, GlobalTopic, hashable
from penstock.streams.topology.errors import StreamsError

PARTITION = TopicPartition("users", 0)


class Topic:
    """One partition, in memory."""

    def __init__(self) -> None:
        self.id = "first"
        self.start = 0
        self.records: list[tuple[bytes | None, bytes | None]] = []
        self.asked: list[OffsetRange] = []

    def ranges(self) -> tuple[str, Collection[OffsetRange]]:
        return self.id, [OffsetRange(PARTITION, self.start, len(self.records))]

    def read(self, part: OffsetRange) -> Iterator[pa.RecordBatch]:
        self.asked.append(part)
        some = self.records[part.start : part.end]
        columns = {
            "key": pa.array([key for key, _ in some], pa.binary()),
            "value": pa.array([value for _, value in some], pa.binary()),
            "offset": pa.array(range(part.start, part.end), pa.int64()),
        }
        yield pa.RecordBatch.from_pydict(columns)

    def close(self) -> None: ...


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def table(key: PayloadFormat = TEXT, *, is_key_bare: bool = False, skips: bool = False) -> GlobalTopic:
    return GlobalTopic("users", key, is_key_bare, 1000, skips, ())


def test_only_what_is_new_is_read_when_the_copy_is_too_old() -> None:
    topic, clock = Topic(), Clock()
    topic.records = [(b"a", b"1"), (None, b"x"), (b"b", b"2"), (b"a", b"3")]
    copy = GlobalCopy(table(), topic, clock=clock)
    assert copy.find(["a", "b", "c", None]) == [b"3", b"2", None, None]
    topic.records += [(b"b", None), (b"c", b"4")]
    clock.now = 0.9
    assert copy.find(["b", "c"]) == [b"2", None]
    clock.now = 1.0
    assert copy.find(["b", "c"]) == [None, b"4"]
    assert [(part.start, part.end) for part in topic.asked] == [(0, 4), (4, 6)]
    assert len(copy) == 2


def test_the_copy_begins_anew_when_the_topic_was_made_again() -> None:
    topic, clock = Topic(), Clock()
    topic.records = [(b"a", b"1"), (b"b", b"2")]
    copy = GlobalCopy(table(BYTES), topic, clock=clock)
    assert copy.find([b"a"]) == [b"1"]
    topic.id, topic.records, clock.now = "second", [(b"b", b"3")], 2.0
    assert copy.find([b"a", b"b"]) == [None, b"3"]


def test_a_table_is_refused_when_it_outgrows_its_limit() -> None:
    topic = Topic()
    topic.records = [(b"a", b"x" * 1000)] * 50
    assert GlobalCopy(table(), topic, most_bytes=2000).find(["a"]) == [b"x" * 1000]
    topic.records = [(b"%d" % number, b"x" * 100) for number in range(10)]
    with pytest.raises(StreamsError, match="more than") as refused:
        GlobalCopy(table(), topic, most_bytes=2000).find(["1"])
    assert "app.table()" in refused.value.hint


def test_a_bad_key_names_its_place_when_nobody_takes_dead_letters() -> None:
    topic = Topic()
    topic.records = [(b"a", b"1"), (b"\xff", b"2")]
    with pytest.raises(StreamsError, match="offset 1"):
        GlobalCopy(table(), topic).find(["a"])
    assert GlobalCopy(table(skips=True), topic).find(["a"]) == [b"1"]


def test_keys_that_are_json_are_found_by_their_values_when_they_are_written_differently() -> None:
    from pyspark.sql.types import StructType

    topic = Topic()
    topic.records = [(b'{"b": 2,  "a": "x"}', b"1")]
    key = PayloadFormat(PayloadKind.JSON, columns=StructType.fromJson(_columns("a", "string", "b", "long")).json())
    assert GlobalCopy(table(key), topic).find([{"a": "x", "b": 2}, {"a": "x", "b": 3}]) == [b"1", None]
    topic.records = [(b" 7", b"1")]
    bare = PayloadFormat(PayloadKind.JSON, columns=StructType.fromJson(_columns("key", "long")).json())
    assert GlobalCopy(table(bare, is_key_bare=True), topic).find([7, 8]) == [b"1", None]


def _columns(*pairs: str) -> dict[str, object]:
    named = zip(pairs[::2], pairs[1::2], strict=True)
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in named]
    return {"type": "struct", "fields": fields}


def test_keys_are_equal_when_their_fields_come_in_another_order() -> None:
    assert hashable({"a": [1, {"c": 2}], "b": 3}) == hashable({"b": 3, "a": [1, {"c": 2}]})
