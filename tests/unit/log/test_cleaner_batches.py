from __future__ import annotations

import pytest

from penstock.core.types import NO_TIMESTAMP
from penstock.log.compaction.batches import (
    CleaningRules,
    LastRecord,
    decide_batch,
    empty_batch,
    map_records,
    rebuild_batch,
    retain_records,
)
from penstock.log.compaction.offset_map import DIGEST_SIZE, ENTRY_BYTES, OffsetMap, digest
from penstock.protocol.batch import DELETE_HORIZON_FLAG, BatchHeader, is_crc_valid, read_header
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError
from penstock.protocol.record_spans import RecordSpan, decode_spans, note_keys, shift_timestamp
from penstock.protocol.records import Record, build_batch, encode_record, iterate_records, open_batch

NOW = 1_700_000_000_000
LONG_KEY = b"a key that is too long to stand for itself"


def opened(batch: bytes) -> tuple[BatchHeader, bytes, list[RecordSpan]]:
    header, data = open_batch(batch)
    spans, end = decode_spans(data, 0, header.record_count)
    assert end == len(data)
    return header, data, spans


RECORDS = [
    Record(b"a", b"1", (), NOW),
    Record(None, b"x" * 200, (("name", b"value"),), NOW + 1_000_000),
    Record(b"k" * 100, None, (), NOW - 70),
    Record(b"", b"", (("empty", None),), NOW + 5),
]


class TestSpans:
    def test_fields_are_those_of_the_records_when_decoded(self) -> None:
        _, data, spans = opened(build_batch(RECORDS))
        assert [span.key for span in spans] == [record.key for record in RECORDS]
        assert [span.has_value for span in spans] == [record.value is not None for record in RECORDS]
        assert [span.timestamp_delta + NOW for span in spans] == [record.timestamp for record in RECORDS]
        assert [span.offset_delta for span in spans] == [0, 1, 2, 3]
        assert b"".join(data[span.start : span.end] for span in spans) == data

    def test_large_fields_are_read_when_they_take_several_bytes(self) -> None:
        record = encode_record(Record(b"k" * 70_000, b"v" * 3_000_000), 1_000_000, -(2**40))
        (span,), end = decode_spans(record, 0, 1)
        assert (span.offset_delta, span.timestamp_delta, len(span.key or b"")) == (1_000_000, -(2**40), 70_000)
        assert end == len(record)

    def test_corrupt_message_is_raised_when_a_record_is_cut_anywhere(self) -> None:
        _, data, _ = opened(build_batch(RECORDS))
        for size in range(len(data)):
            with pytest.raises(ApiError):
                decode_spans(data[:size], 0, len(RECORDS))

    def test_corrupt_message_is_raised_when_sizes_are_nonsense(self) -> None:
        for data in (b"\x01\x00", b"\x00", b"\x0c\x00\x00\x00\x7e\x00\x00", b"\xff" * 12, b"\x08\x00\x00\x00\x06"):
            with pytest.raises(ApiError):
                decode_spans(data, 0, 1)

    def test_keys_are_those_of_the_spans_when_they_are_noted(self) -> None:
        records = [*RECORDS, Record(LONG_KEY, b"v" * 70_000, (), NOW + 2**40), Record(b"a", None)]
        _, data, spans = opened(build_batch(records))
        expected, found = OffsetMap(10, -1), OffsetMap(10, -1)
        map_records(spans, 100, 0, expected)
        middle = note_keys(data, 0, 2, 100, found.entries, DIGEST_SIZE, digest)
        assert middle == spans[2].start
        assert note_keys(data, middle, len(records) - 2, 100, found.entries, DIGEST_SIZE, digest) == len(data)
        assert found.entries == expected.entries
        assert found.get(b"a") == 105

    def test_keys_are_refused_where_spans_are_when_any_byte_is_changed_or_cut(self) -> None:
        _, data, _ = opened(build_batch(RECORDS))
        damaged = [data[:size] for size in range(len(data))]
        damaged += [
            data[:at] + bytes([value]) + data[at + 1 :] for at in range(len(data)) for value in (0, 1, 127, 255)
        ]
        damaged += [b"\x01\x00", b"\x00", b"\x0c\x00\x00\x00\x7e\x00\x00", b"\xff" * 12, b"\x08\x00\x00\x00\x06"]
        for each in damaged:
            found = OffsetMap(10, -1)
            try:
                spans, end = decode_spans(each, 0, len(RECORDS))
            except ApiError:
                with pytest.raises(ApiError):
                    note_keys(each, 0, len(RECORDS), 100, found.entries, DIGEST_SIZE, digest)
            else:
                expected = OffsetMap(10, -1)
                map_records(spans, 100, -(2**70), expected)
                assert note_keys(each, 0, len(RECORDS), 100, found.entries, DIGEST_SIZE, digest) == end
                assert found.entries == expected.entries

    @pytest.mark.parametrize("shift", [0, 1, -1, 2**40, -(2**40)])
    def test_only_the_timestamp_changes_when_it_is_shifted(self, shift: int) -> None:
        for record in RECORDS:
            assert shift_timestamp(encode_record(record, 3, 100), shift) == encode_record(record, 3, 100 + shift)


class TestOffsetMap:
    def test_last_offset_is_found_when_keys_are_short_or_long(self) -> None:
        offsets = OffsetMap(10, -1)
        for offset, key in enumerate([b"a", LONG_KEY, b"a", LONG_KEY, b""]):
            offsets.put(key, offset)
        assert [offsets.get(key) for key in (b"a", LONG_KEY, b"", b"b")] == [2, 3, 4, -1]
        assert all(len(key) <= 16 for key in offsets.entries)

    def test_capacity_follows_the_memory_when_made(self) -> None:
        assert OffsetMap.within(ENTRY_BYTES * 100, 0.9, -1).capacity == 90
        assert OffsetMap.within(1, 0.9, -1).capacity == 1

    def test_map_is_full_when_the_capacity_is_reached(self) -> None:
        offsets = OffsetMap(2, -1)
        offsets.put(b"a", 1)
        assert (offsets.is_full, offsets.utilization) == (False, 0.5)
        offsets.put(b"b", 2)
        assert offsets.is_full


class TestRetain:
    def kept(self, batch: bytes, offsets: OffsetMap, now_ms: int = NOW) -> list[int]:
        header, _, spans = opened(batch)
        return [span.offset_delta for span in retain_records(spans, header, offsets, now_ms)]

    def test_last_of_each_key_stays_when_the_batch_is_mapped(self) -> None:
        batch = build_batch([Record(key, b"v") for key in (b"a", LONG_KEY, b"a", LONG_KEY, b"c")])
        header, _, spans = opened(batch)
        offsets = OffsetMap(10, 4)
        map_records(spans, header.base_offset, 0, offsets)
        assert self.kept(batch, offsets) == [2, 3, 4]

    def test_records_stay_when_the_map_does_not_reach_them(self) -> None:
        offsets = OffsetMap(10, 0)
        offsets.put(b"a", 7)
        batch = build_batch([Record(b"a", b"v"), Record(b"a", b"v"), Record(None, b"v")])
        assert self.kept(batch, offsets) == [1, 2]

    def test_record_without_key_goes_when_the_map_reaches_it(self) -> None:
        assert self.kept(build_batch([Record(None, b"v"), Record(b"a", b"v")]), OffsetMap(10, 5)) == [1]

    def test_tombstone_goes_when_its_horizon_has_passed(self) -> None:
        header, data, spans = opened(build_batch([Record(b"a", None, (), NOW), Record(b"b", b"v", (), NOW)]))
        stamped = rebuild_batch(header, data, spans, NOW + 10)
        assert self.kept(stamped, OffsetMap(10, 5), NOW + 9) == [0, 1]
        assert self.kept(stamped, OffsetMap(10, 5), NOW + 10) == [1]

    def test_earlier_records_are_not_mapped_when_they_are_clean_already(self) -> None:
        _, _, spans = opened(build_batch([Record(b"a", b"1"), Record(b"b", b"1")]))
        offsets = OffsetMap(10, -1)
        map_records(spans, 100, 101, offsets)
        assert (offsets.get(b"a"), offsets.get(b"b")) == (-1, 101)


class TestRebuild:
    @pytest.mark.parametrize("codec", list(Codec))
    @pytest.mark.parametrize("horizon_ms", [None, NOW + 5_000, NOW - 5_000])
    def test_kept_records_are_unchanged_when_others_go(self, codec: Codec, horizon_ms: int | None) -> None:
        original = build_batch(
            RECORDS, base_offset=40, codec=codec, leader_epoch=3, producer_id=9, producer_epoch=2, base_sequence=17,
            is_transactional=True,
        )  # fmt: skip
        header, data, spans = opened(original)
        rebuilt = rebuild_batch(header, data, [spans[0], spans[2]], horizon_ms)
        after = read_header(rebuilt)
        assert is_crc_valid(rebuilt, 0, after)
        assert list(iterate_records(rebuilt)) == [
            RECORDS[0]._replace(offset=40),
            RECORDS[2]._replace(offset=42),
        ]
        for field in ("base_offset", "last_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence"):
            assert getattr(after, field) == getattr(header, field)
        assert (after.last_sequence, after.compression, after.is_transactional) == (20, codec, True)
        assert after.max_timestamp == NOW
        assert after.has_delete_horizon == (horizon_ms is not None)
        assert after.base_timestamp == (header.base_timestamp if horizon_ms is None else horizon_ms)

    def test_batch_time_stays_when_it_is_the_brokers(self) -> None:
        header, data, spans = opened(build_batch(RECORDS, log_append_time_ms=NOW + 77))
        rebuilt = rebuild_batch(header, data, spans[:1], NOW + 500)
        assert [record.timestamp for record in iterate_records(rebuilt)] == [NOW + 77]

    def test_only_offsets_and_producer_stay_when_a_batch_is_emptied(self) -> None:
        original = build_batch(
            RECORDS, base_offset=40, codec=Codec.ZSTD, leader_epoch=3, producer_id=9, producer_epoch=2, base_sequence=17
        )
        header, data, spans = opened(original)
        empty = empty_batch(read_header(rebuild_batch(header, data, spans, NOW)))
        after = read_header(empty)
        assert is_crc_valid(empty, 0, after)
        assert (len(empty), after.record_count, after.attributes, after.base_timestamp) == (61, 0, 0, NO_TIMESTAMP)
        assert (after.base_offset, after.last_offset, after.last_sequence) == (40, 43, 20)
        assert (after.producer_id, after.producer_epoch, after.leader_epoch) == (9, 2, 3)
        assert after.max_timestamp == NOW + 1_000_000
        assert list(iterate_records(empty)) == []


class TestDecision:
    RULES = CleaningRules(NOW, 1_000, {9: LastRecord(43, 2), 8: LastRecord(-1, 5)})

    def header(self, **fields: int | bool) -> BatchHeader:
        return read_header(build_batch(RECORDS, base_offset=40, **fields))  # type: ignore[arg-type]

    def test_batch_stays_if_empty_when_it_is_the_last_of_its_producer(self) -> None:
        assert decide_batch(self.header(producer_id=9, producer_epoch=2), True, False, self.RULES).stays_if_empty
        earlier = self.header(producer_id=9)._replace(base_offset=39)
        assert not decide_batch(earlier, True, False, self.RULES).stays_if_empty
        assert not decide_batch(self.header(producer_id=7), True, False, self.RULES).stays_if_empty

    def test_marker_stays_if_empty_when_it_is_all_that_is_left_of_a_producer(self) -> None:
        marker = self.header(producer_id=8, producer_epoch=5, is_control=True)
        assert decide_batch(marker, True, False, self.RULES).stays_if_empty
        older = self.header(producer_id=8, producer_epoch=4, is_control=True)
        assert not decide_batch(older, True, False, self.RULES).stays_if_empty

    def test_batch_stays_if_empty_when_it_is_the_last_of_its_segment(self) -> None:
        assert decide_batch(self.header(), False, True, self.RULES).stays_if_empty

    def test_marker_waits_for_its_horizon_when_its_transaction_is_gone(self) -> None:
        marker = self.header(is_control=True, producer_id=1)
        assert decide_batch(marker, True, False, self.RULES) == (False, False, True)
        stamped = marker._replace(attributes=marker.attributes | DELETE_HORIZON_FLAG, base_timestamp=NOW + 1)
        assert not decide_batch(stamped, True, False, self.RULES).drops_records
        due = stamped._replace(base_timestamp=NOW)
        assert decide_batch(due, True, False, self.RULES).drops_records
        assert not decide_batch(due, False, False, self.RULES).drops_records
