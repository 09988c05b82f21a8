"""The latest record of each key, beside a plain loop that keeps a dictionary."""

from __future__ import annotations

import random
from typing import NamedTuple

import pyarrow as pa
import pytest

from penstock.pipelines.errors import TableError
from penstock.pipelines.tables.latest import LastOfKeys, gather, merge_latest, pieces


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    partition: int
    offset: int
    timestamp: int


SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)


def batch(records: list[Record]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([each._asdict() for each in records], schema=SCHEMA)


def expected(records: list[Record]) -> dict[bytes, Record]:
    of_partition: dict[tuple[bytes, int], Record] = {}
    for each in sorted(records, key=lambda each: each.offset):
        if each.key is not None:
            of_partition[each.key, each.partition] = each
    latest: dict[bytes, Record] = {}
    for (key, _), each in of_partition.items():
        rank = (each.timestamp, each.offset, each.partition)
        if key not in latest or rank > (latest[key].timestamp, latest[key].offset, latest[key].partition):
            latest[key] = each
    return {key: each for key, each in latest.items() if each.value is not None}


def found(table: pa.Table | None) -> dict[bytes, Record]:
    rows = [] if table is None else [Record(*row.values()) for row in _plain(table).to_pylist()]
    assert len({row.key for row in rows}) == len(rows)
    return {row.key: row for row in rows if row.key is not None}


def _plain(table: pa.Table) -> pa.Table:
    place = table.schema.get_field_index("timestamp")
    return table.set_column(place, "timestamp", table.column("timestamp").cast(pa.int64()))


def reduced(tasks: list[list[Record]]) -> pa.Table | None:
    """As tasks do it, each with batches of a few records, whose partitions follow each other."""
    candidates: list[pa.RecordBatch] = []
    for task in tasks:
        for partition in sorted({each.partition for each in task}):
            keeper = LastOfKeys()
            own = sorted((each for each in task if each.partition == partition), key=lambda each: each.offset)
            for start in range(0, len(own), 7):
                keeper.add(batch(own[start : start + 7]))
            kept = keeper.rows()
            candidates.extend(pieces(kept) if kept is not None else ())
    random.Random(1).shuffle(candidates)
    gathered = gather(candidates)
    return None if gathered is None else merge_latest(gathered)


@pytest.mark.parametrize("seed", range(30))
def test_the_latest_record_of_each_key_stays_when_partitions_are_read_in_pieces(seed: int) -> None:
    chance = random.Random(seed)
    records = [
        Record(
            chance.choice([None, b"", b"a", b"b", b"c", *(str(number).encode() for number in range(seed))]),
            chance.choice([None, b"", b"x" * chance.randrange(5)]),
            partition,
            offset,
            chance.randrange(6),  # the same time often, and not in the order of offsets
        )
        for partition in range(chance.randrange(1, 4))
        for offset in range(chance.randrange(60))
    ]
    tasks: list[list[Record]] = [[], [], []]
    for each in records:
        tasks[(each.partition + each.offset // 20) % 3].append(each)
    assert found(reduced(tasks)) == expected(records)


def test_a_key_that_moved_to_another_partition_has_its_later_record() -> None:
    old, new = Record(b"k", b"old", 0, 900, 5), Record(b"k", b"new", 1, 3, 6)
    assert found(reduced([[old], [new]])) == {b"k": new}


def test_a_key_is_gone_when_its_latest_record_has_no_value_though_another_task_has_an_older_one() -> None:
    assert found(reduced([[Record(b"k", b"v", 0, 1, 5)], [Record(b"k", None, 0, 7, 6)]])) == {}


def test_within_a_partition_the_offset_counts_when_timestamps_run_backwards() -> None:
    """A task that compared partitions would drop the record of partition 1, which is the latest in the end."""
    first, last, other = Record(b"k", b"1", 0, 1, 100), Record(b"k", b"2", 0, 5, 50), Record(b"k", b"3", 1, 0, 70)
    assert found(reduced([[first, other], [last]])) == {b"k": other}


def test_what_is_kept_is_compared_again_and_again_when_records_are_many() -> None:
    keeper = LastOfKeys()
    for start in range(0, 600_000, 50_000):
        numbers = range(start, start + 50_000)
        keys = pa.array([str(number % 1_000).encode() for number in numbers], pa.binary())
        columns = [keys, keys, pa.array([0] * 50_000, pa.int32()), pa.array(numbers, pa.int64())]
        times = pa.array([0] * 50_000, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        keeper.add(pa.RecordBatch.from_arrays([*columns, times], schema=SCHEMA))
    kept = keeper.rows()
    assert kept is not None
    assert sorted(kept.column("offset").to_pylist()) == list(range(599_000, 600_000))


def test_nothing_is_kept_when_no_record_has_a_key() -> None:
    keeper = LastOfKeys()
    keeper.add(batch([Record(None, b"v", 0, 0, 0)]))
    assert keeper.rows() is None
    assert gather([]) is None


def test_what_is_pending_is_bounded_by_bytes_when_records_are_few_and_large() -> None:
    keeper = LastOfKeys(most_pending_bytes=100_000)
    most = 0
    for offset in range(100):
        keeper.add(batch([Record(b"k", b"x" * 10_000, 0, offset, offset)]))
        most = max(most, keeper.pending_bytes)
    assert most < 100_000
    assert found(keeper.rows())[b"k"].offset == 99


def test_it_is_said_what_to_do_when_distinct_keys_take_too_much() -> None:
    keeper = LastOfKeys(most_kept_bytes=1 << 20, most_pending_bytes=1 << 18)
    rows = batch([Record(b"k%d" % offset, b"x" * 10_000, 0, offset, offset) for offset in range(1_000)])
    with pytest.raises(TableError, match="keys take more than 1 MiB"):
        keeper.add(rows)
