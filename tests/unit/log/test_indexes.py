from __future__ import annotations

import struct

import pytest

from penstock.log.storage.indexes import CorruptIndexError, OffsetIndex, TimeIndex


def offset_index(*entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex(1000)
    for offset, position in entries:
        index.append(offset, position)
    return index


def time_index(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex(1000)
    for timestamp, offset in entries:
        index.append(timestamp, offset)
    return index


def test_the_bytes_are_kafkas_when_an_offset_index_is_encoded() -> None:
    index = offset_index((1005, 0), (1010, 4100), (1300, 2**31 - 1))
    assert index.encode() == struct.pack(">6i", 5, 0, 10, 4100, 300, 2**31 - 1)
    again = OffsetIndex.decode(1000, index.encode(), 2**31)
    assert (again.offsets, again.positions) == (index.offsets, index.positions)


def test_the_bytes_are_kafkas_when_a_time_index_is_encoded() -> None:
    index = time_index((1_700_000_000_000, 1005), (1_800_000_000_000, 1010))
    assert index.encode() == struct.pack(">qiqi", 1_700_000_000_000, 5, 1_800_000_000_000, 10)
    again = TimeIndex.decode(1000, index.encode())
    assert (again.timestamps, again.offsets) == (index.timestamps, index.offsets)
    assert again.last_entry() == (1_800_000_000_000, 1010)


def test_the_nearest_entry_below_is_found_when_an_offset_is_looked_up() -> None:
    index = offset_index((1005, 100), (1010, 200), (1020, 300))
    assert [index.lookup(offset) for offset in (999, 1004, 1005, 1009, 1010, 1019, 1020, 5000)] == [
        0, 0, 100, 100, 200, 200, 300, 300,
    ]  # fmt: skip


def test_an_early_enough_offset_is_found_when_a_timestamp_is_looked_up() -> None:
    index = time_index((50, 1005), (70, 1010))
    assert [index.lookup(timestamp) for timestamp in (10, 49, 50, 69, 70, 99)] == [1000, 1000, 1005, 1005, 1010, 1010]


def test_an_entry_is_left_out_when_its_timestamp_is_not_newer() -> None:
    assert len(time_index((50, 1005), (50, 1006), (40, 1007), (-1, 1008))) == 1
    assert len(time_index((-1, 1005))) == 0


def test_entries_go_when_the_index_is_truncated() -> None:
    index = offset_index((1005, 100), (1010, 200), (1020, 300))
    index.truncate(1010)
    assert list(index.offsets) == [5]
    times = time_index((1, 1005), (2, 1010), (3, 1020))
    times.truncate(1011)
    assert times.last_entry() == (2, 1010)
    times.truncate(0)
    assert times.last_entry() == (-1, 1000)


@pytest.mark.parametrize(
    "data",
    [
        b"1234567",
        struct.pack(">4i", 10, 0, 5, 100),
        struct.pack(">4i", 1, 100, 2, 50),
        struct.pack(">2i", 1, 5000),
        struct.pack(">2i", -1, 0),
        bytes(800),
    ],
)
def test_an_offset_index_is_refused_when_it_cannot_be_right(data: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        OffsetIndex.decode(1000, data, 5000)


@pytest.mark.parametrize(
    "data", [b"x" * 13, struct.pack(">qiqi", 5, 1, 4, 2), struct.pack(">qiqi", 5, 3, 6, 2), bytes(24)]
)
def test_a_time_index_is_refused_when_it_cannot_be_right(data: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        TimeIndex.decode(1000, data)
