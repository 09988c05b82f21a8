"""Of a coordinator's log, the last record of each key: what a load replays."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.coordinators.latest_records import LatestRecord, LatestRecords
from penstock.core.steps import finish
from penstock.core.types import NO_PRODUCER_ID
from penstock.protocol.batch import HEADER_SIZE
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import CONTROL_ABORT, CONTROL_COMMIT, EndMarker, Record, build_batch, build_end_marker

_PRODUCER, _OTHER = 7, 8


class _Log:
    """Batches one after the other, numbered as a log numbers them."""

    def __init__(self) -> None:
        self.data = b""
        self.end_offset = 0

    def plain(self, *records: tuple[bytes, bytes | None], codec: int = Codec.NONE) -> None:
        self._add(build_batch(_records(records), base_offset=self.end_offset, codec=codec), len(records))

    def in_transaction(self, *records: tuple[bytes, bytes | None], producer_id: int = _PRODUCER) -> None:
        batch = build_batch(
            _records(records),
            base_offset=self.end_offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        self._add(batch, len(records))

    def end(self, control_type: int = CONTROL_COMMIT, producer_id: int = _PRODUCER) -> None:
        marker = EndMarker(control_type, 3)
        batch = build_end_marker(
            marker, producer_id=producer_id, producer_epoch=0, timestamp=5, base_offset=self.end_offset
        )
        self._add(batch, 1)

    def _add(self, batch: bytes, count: int) -> None:
        self.data += batch
        self.end_offset += count

    def latest(self) -> list[LatestRecord]:
        records = LatestRecords()
        assert finish(records.take(self.data, 0)) == self.end_offset
        found = list(records)
        assert len(records) == len(found)
        return found


def _records(records: Sequence[tuple[bytes, bytes | None]]) -> list[Record]:
    return [Record(key, value, timestamp=1_000 * number) for number, (key, value) in enumerate(records)]


def _plain(key: bytes, value: bytes | None, offset: int) -> LatestRecord:
    return LatestRecord(key, value, offset, NO_PRODUCER_ID)


def test_the_last_record_of_each_key_is_left_in_the_order_in_which_they_were_written() -> None:
    log = _Log()
    log.plain((b"a", b"1"), (b"b", b"2"))
    log.plain((b"c", b"3"))
    log.plain((b"a", b"4"))
    assert log.latest() == [_plain(b"b", b"2", 1), _plain(b"c", b"3", 2), _plain(b"a", b"4", 3)]


def test_a_tombstone_is_left_when_it_is_the_last_record_of_its_key() -> None:
    log = _Log()
    log.plain((b"a", b"1"))
    log.plain((b"a", None))
    assert log.latest() == [_plain(b"a", None, 1)]


def test_long_keys_and_values_and_compressed_batches_are_read() -> None:
    key, value = b"k" * 20_000, b"v" * 3_000_000
    log = _Log()
    log.plain((key, value), (b"short", b"v" * 200))
    log.plain(*((b"%d" % number, b"x" * number) for number in range(1_000)), codec=Codec.LZ4)
    log.plain((b"7", b""))
    found = log.latest()
    assert found[:2] == [_plain(key, value, 0), _plain(b"short", b"v" * 200, 1)]
    assert found[-1] == _plain(b"7", b"", 1_002)
    assert len(found) == 1_002


def test_offsets_of_a_transaction_count_when_its_marker_commits() -> None:
    log = _Log()
    log.plain((b"a", b"1"), (b"b", b"1"))
    log.in_transaction((b"a", b"2"))
    log.in_transaction((b"b", b"2"), producer_id=_OTHER)
    log.end()
    log.end(CONTROL_ABORT, _OTHER)
    assert log.latest() == [_plain(b"b", b"1", 1), _plain(b"a", b"2", 2)]


def test_a_plain_record_wins_over_a_transaction_that_was_written_before_it_and_ended_after_it() -> None:
    log = _Log()
    log.in_transaction((b"a", b"1"), (b"b", b"1"))
    log.plain((b"a", b"2"))
    log.end()
    assert log.latest() == [_plain(b"a", b"2", 2), _plain(b"b", b"1", 1)]


def test_offsets_of_an_open_transaction_are_left_with_their_producer() -> None:
    log = _Log()
    log.in_transaction((b"a", b"1"))
    log.in_transaction((b"a", b"2"))
    log.plain((b"a", b"3"))
    assert log.latest() == [_plain(b"a", b"3", 2), LatestRecord(b"a", b"2", 1, _PRODUCER)]


def test_a_deleted_offset_does_not_come_back_when_a_transaction_ends() -> None:
    log = _Log()
    log.in_transaction((b"a", b"1"), (b"b", b"1"))
    log.plain((b"a", None))
    assert log.latest() == [_plain(b"a", None, 2), LatestRecord(b"b", b"1", 1, _PRODUCER)]
    log.end()
    assert log.latest() == [_plain(b"a", None, 2), _plain(b"b", b"1", 1)]


def test_a_batch_that_is_cut_off_is_left_for_the_next_piece() -> None:
    log = _Log()
    log.plain((b"a", b"1"))
    first = len(log.data)
    log.plain((b"a", b"2"))
    for end in (first, first + 10, first + HEADER_SIZE, len(log.data) - 1):
        records = LatestRecords()
        assert finish(records.take(log.data[:end], 0)) == 1
        assert finish(records.take(log.data[first:], 1)) == 2
        assert list(records) == [_plain(b"a", b"2", 1)]
        assert records.batch_count == 2


@pytest.mark.parametrize("position", [17, 30, HEADER_SIZE + 3])
def test_a_damaged_batch_is_refused(position: int) -> None:
    log = _Log()
    log.plain((b"a", b"1"))
    damaged = bytearray(log.data)
    damaged[position] ^= 1
    with pytest.raises(ApiError) as error:
        finish(LatestRecords().take(bytes(damaged), 0))
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE


def test_others_get_turns_when_there_are_many_batches_or_many_records_in_one() -> None:
    many, large = _Log(), _Log()
    for number in range(1_000):
        many.plain((b"a", b"%d" % number))
    large.plain(*((b"%d" % number, b"v") for number in range(10_000)))
    assert sum(1 for _ in LatestRecords().take(many.data, 0)) > 10
    assert sum(1 for _ in LatestRecords().take(large.data, 0)) > 10
