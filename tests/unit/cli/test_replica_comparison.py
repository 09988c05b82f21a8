from __future__ import annotations

import pytest

from penstock.cli.plans.replica_comparison import (
    Comparison,
    Piece,
    StoredBatch,
    UnknownFormatError,
    compare,
    split_batches,
)
from penstock.protocol.batch import pack_prefix, read_header
from penstock.protocol.records import Record, build_batch


def batch(offset: int, *values: bytes, epoch: int = 1) -> bytes:
    data = build_batch([Record(b"k", value, timestamp=0) for value in values])
    header = read_header(data)
    return pack_prefix(offset, header.batch_length, epoch) + data[16:]


def piece(high_watermark: int, *batches: bytes) -> Piece:
    return Piece(high_watermark, tuple(StoredBatch(read_header(data), data) for data in batches))


def texts(comparison: Comparison) -> list[tuple[int, int, str]]:
    return [(each.offset, each.broker, each.text) for each in comparison.differences]


def test_nothing_differs_when_all_replicas_have_the_same_bytes() -> None:
    content = batch(0, b"a", b"b"), batch(2, b"c")
    assert compare({1: piece(3, *content), 2: piece(3, *content)}, 0, is_compacted=False) == Comparison(3, 2, ())


def test_only_what_all_replicas_have_given_is_compared_when_one_gave_less() -> None:
    content = batch(0, b"a", b"b"), batch(2, b"c"), batch(3, b"d")
    late = piece(2, content[0])
    assert compare({1: piece(4, *content), 2: late}, 0, is_compacted=False) == Comparison(2, 1, ())
    cut_off = piece(4, *content[:2])
    assert compare({1: piece(4, *content), 2: cut_off}, 0, is_compacted=False) == Comparison(3, 2, ())


def test_there_is_no_progress_when_a_replica_has_nothing_that_is_committed() -> None:
    comparison = compare({1: piece(1, batch(0, b"a")), 2: piece(0)}, 0, is_compacted=False)
    assert comparison == Comparison(0, 0, ())


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (batch(0, b"X"), "checksums"),
        (batch(0, b"longer"), "sizes"),
        (batch(0, b"a", epoch=2), "leader epochs 1 and 2"),
    ],
)
def test_a_difference_is_told_by_what_differs_when_batches_do(other: bytes, text: str) -> None:
    comparison = compare({1: piece(1, batch(0, b"a")), 2: piece(1, other)}, 0, is_compacted=False)
    ((offset, broker, told),) = texts(comparison)
    assert (offset, broker) == (0, 2)
    assert text in told
    assert comparison.next_offset == 1


def test_a_hole_is_a_difference_when_the_topic_is_not_compacted() -> None:
    whole, holey = piece(3, batch(0, b"a"), batch(1, b"b"), batch(2, b"c")), piece(3, batch(0, b"a"), batch(2, b"c"))
    assert texts(compare({3: whole, 1: holey}, 0, is_compacted=False)) == [
        (1, 1, "broker 3 has a batch here, broker 1 has none")
    ]
    assert compare({3: whole, 1: holey}, 0, is_compacted=True) == Comparison(3, 3, ())


def test_records_that_both_kept_differ_when_the_topic_is_compacted() -> None:
    one, other = piece(3, batch(0, b"a", b"b"), batch(2, b"c")), piece(3, batch(1, b"b"), batch(2, b"X"))
    assert texts(compare({1: one, 2: other}, 0, is_compacted=True)) == [
        (2, 2, "brokers 1 and 2 have different records")
    ]


def test_a_compacted_replica_has_reached_its_end_when_nothing_is_left_of_it() -> None:
    assert compare({1: piece(5, batch(0, b"a")), 2: piece(5)}, 0, is_compacted=True).next_offset == 1
    assert compare({1: piece(5), 2: piece(5)}, 1, is_compacted=True).next_offset == 5


def test_a_batch_is_left_out_when_an_answer_ends_within_it() -> None:
    data = batch(0, b"a") + batch(1, b"b")
    assert [each.header.base_offset for each in split_batches(data)] == [0, 1]
    assert [each.header.base_offset for each in split_batches(data[:-1])] == [0]
    assert list(split_batches(data[:30])) == []


def test_a_batch_of_an_old_format_is_refused() -> None:
    data = bytearray(batch(0, b"a"))
    data[16] = 1
    with pytest.raises(UnknownFormatError, match="offset 0 has the old format 1"):
        list(split_batches(bytes(data)))
