from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.log_settings import LogSettings
from penstock.log.partition_log import Origin
from penstock.protocol import batch as batches
from penstock.protocol.batch import BatchHeader
from penstock.protocol.compression import DECOMPRESSION_LIMIT, Codec, compress
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import (
    CONTROL_COMMIT,
    EndMarker,
    Record,
    build_batch,
    build_end_marker,
    iterate_records,
)
from tests.unit.log.support import NOW, SMALL, Disk, append, batch, contents, read_all, sequenced

HOUR = 3_600_000


def rebuilt(data: bytes, **fields: int) -> bytes:
    """The batch with header fields changed and a right checksum."""
    return batches.build(batches.read_header(data)._replace(**fields), data[batches.HEADER_SIZE :])


def patched(data: bytes, position: int, value: bytes) -> bytes:
    return data[:position] + value + data[position + len(value) :]


def refusal(tmp_path: Path, data: bytes, settings: LogSettings = SMALL, now_ms: int = NOW) -> ApiError:
    log = Disk(tmp_path, settings=settings).create()
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(data, 0, now_ms)
    assert log.log_end_offset == 0
    assert log.size == 0
    assert log.offline_reason is None
    return caught.value


def stored(tmp_path: Path, data: bytes, settings: LogSettings, now_ms: int = NOW) -> tuple[BatchHeader, bytes]:
    log = Disk(tmp_path, settings=settings).create()
    append(log, data, now_ms=now_ms)
    found = contents(log.reader.read(0, 10**6, 100, True))
    header = batches.read_header(found)
    assert batches.is_crc_valid(found, 0, header)
    return header, found


def test_offsets_and_epoch_are_written_into_the_batch_when_it_is_appended(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    first = log.append_as_leader(batch("a", "b"), 3, NOW)
    second = log.append_as_leader(batch("c"), 3, NOW)
    assert (first.base_offset, first.last_offset, first.log_append_time_ms) == (0, 1, -1)
    assert (second.base_offset, second.last_offset, second.is_duplicate) == (2, 2, False)
    data = contents(log.reader.read(2, 10**6, 3, True))
    header = batches.read_header(data)
    assert (header.base_offset, header.leader_epoch) == (2, 3)
    assert batches.is_crc_valid(data, 0, header)


@pytest.mark.parametrize("kind", [bytes, bytearray, lambda data: memoryview(bytearray(data)), memoryview])
def test_any_buffer_is_taken_and_left_unchanged_when_appended(tmp_path: Path, kind: type[bytes]) -> None:
    log = Disk(tmp_path).create()
    original = batch("a")
    data = kind(original)
    append(log, data, data)
    assert bytes(data) == original
    assert read_all(log) == [(0, "a"), (1, "a")]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (batch("a")[:40], ErrorCode.CORRUPT_MESSAGE),
        (batch("a")[:-1], ErrorCode.CORRUPT_MESSAGE),
        (batch("a") + batch("b"), ErrorCode.INVALID_RECORD),
        (patched(batch("a"), 8, (5).to_bytes(4, "big")), ErrorCode.CORRUPT_MESSAGE),
        (patched(batch("a"), 8, b"\xff\xff\xff\xff"), ErrorCode.CORRUPT_MESSAGE),
        (patched(batch("a"), 16, b"\x01"), ErrorCode.INVALID_RECORD),
        (patched(batch("a"), 16, b"\x07"), ErrorCode.CORRUPT_MESSAGE),
        (patched(batch("a"), 65, b"\xaa"), ErrorCode.CORRUPT_MESSAGE),
        (batch("a", base_offset=5), ErrorCode.INVALID_RECORD),
        (rebuilt(batch("a"), last_offset_delta=4), ErrorCode.INVALID_RECORD),
        (rebuilt(batch("a"), record_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
        (rebuilt(batch("a"), record_count=-5, last_offset_delta=-6), ErrorCode.INVALID_RECORD),
        (rebuilt(batch("a"), record_count=2, last_offset_delta=1), ErrorCode.INVALID_RECORD),
        (rebuilt(batch("a"), record_count=2**31 - 1, last_offset_delta=2**31 - 2), ErrorCode.INVALID_RECORD),
        (rebuilt(batch("a"), attributes=6), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (batch("a", is_control=True), ErrorCode.INVALID_RECORD),
        (batch("a", producer_id=5, producer_epoch=0, base_sequence=-1), ErrorCode.INVALID_RECORD),
        (batch("a", timestamp=NOW + HOUR + 1), ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_a_bad_batch_is_refused_with_kafkas_code_when_a_client_sends_it(
    tmp_path: Path, data: bytes, code: ErrorCode
) -> None:
    assert refusal(tmp_path, data).code == code


@pytest.mark.parametrize("codec", Codec)
def test_no_segment_begins_when_a_small_batch_claims_more_than_it_can_hold(tmp_path: Path, codec: Codec) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    append(log, batch("a"))
    lie = rebuilt(batch("a", codec=codec), record_count=2**31 - 1, last_offset_delta=2**31 - 2)
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(lie, 0, NOW)
    assert caught.value.code == ErrorCode.INVALID_RECORD
    assert len(disk.names(".log")) == 1


@pytest.mark.parametrize("codec", Codec)
def test_records_are_taken_when_they_differ_in_their_offsets_alone(tmp_path: Path, codec: Codec) -> None:
    plain = build_batch([Record()] * 10_000)
    best = {Codec.GZIP: 9, Codec.LZ4: 12, Codec.ZSTD: 22}.get(codec)
    header = batches.read_header(plain)._replace(attributes=codec)
    data = batches.build(header, compress(codec, plain[batches.HEADER_SIZE :], best))
    log = Disk(tmp_path, settings=replace(SMALL, segment_bytes=10**6)).create()
    assert log.append_as_leader(data, 0, NOW).last_offset == 9_999


def test_a_count_is_compared_with_what_is_there_when_a_batch_is_compressed_anew(tmp_path: Path) -> None:
    settings = replace(SMALL, compression_type="gzip")
    header = batches.read_header(batch("a"))._replace(attributes=Codec.ZSTD, record_count=50, last_offset_delta=49)
    lie = batches.build(header, compress(Codec.ZSTD, bytes(50 * batches.LEAST_RECORD_BYTES - 1)))
    assert refusal(tmp_path, lie, settings).code == ErrorCode.INVALID_RECORD


def test_message_too_large_is_answered_when_the_batch_exceeds_max_message_bytes(tmp_path: Path) -> None:
    data = batch("x" * 500)
    settings = replace(SMALL, max_message_bytes=len(data))
    assert stored(tmp_path / "fits", data, settings)[0].record_count == 1
    settings = replace(SMALL, max_message_bytes=len(data) - 1)
    assert refusal(tmp_path / "does not", data, settings).code == ErrorCode.MESSAGE_TOO_LARGE


def test_record_list_too_large_is_answered_when_the_batch_exceeds_a_segment(tmp_path: Path) -> None:
    assert refusal(tmp_path, batch("x" * 2000)).code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_the_stored_size_counts_against_the_segment_when_a_batch_is_recompressed(tmp_path: Path) -> None:
    settings = replace(SMALL, compression_type="zstd")
    assert stored(tmp_path / "shrinks", batch("x" * 2000), settings)[0].compression == Codec.ZSTD
    settings = replace(SMALL, compression_type="uncompressed")
    grows = batch("x" * 2000, codec=Codec.ZSTD)
    assert refusal(tmp_path / "grows", grows, settings).code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_every_record_is_named_when_keys_are_missing_on_a_compacted_topic(tmp_path: Path) -> None:
    settings = replace(SMALL, cleanup_policy=frozenset({"compact"}))
    records = [Record(b"k", b"1", (), NOW), Record(None, b"2", (), NOW), Record(b"", b"3", (), NOW), Record(None, b"4")]
    for codec in Codec:
        error = refusal(tmp_path / codec.name, build_batch(records, codec=codec), settings)
        assert error.code == ErrorCode.INVALID_RECORD
        assert [index for index, _ in error.record_errors] == [1, 3]


def test_records_without_keys_are_taken_when_the_topic_is_not_compacted(tmp_path: Path) -> None:
    assert stored(tmp_path, batch("a", key=None), SMALL)[0].record_count == 1


def test_damaged_records_are_refused_when_a_compacted_topic_looks_inside(tmp_path: Path) -> None:
    settings = replace(SMALL, cleanup_policy=frozenset({"compact"}))
    header = batches.read_header(batch("a"))
    assert refusal(tmp_path, batches.build(header, b"\x7f garbage"), settings).code == ErrorCode.CORRUPT_MESSAGE


def test_the_old_records_are_named_when_a_lower_timestamp_bound_is_set(tmp_path: Path) -> None:
    settings = replace(SMALL, message_timestamp_before_max_ms=1000)
    records = [Record(b"k", b"1", (), NOW - 1000), Record(b"k", b"2", (), NOW - 1001), Record(b"k", b"3", (), -1)]
    error = refusal(tmp_path, build_batch(records), settings)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [1]


def test_future_records_are_named_when_they_lie_too_far_ahead(tmp_path: Path) -> None:
    records = [Record(b"k", b"1", (), NOW), Record(b"k", b"2", (), NOW + HOUR + 1)]
    error = refusal(tmp_path, build_batch(records, codec=Codec.ZSTD))
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [1]


def test_any_timestamp_is_taken_when_the_topic_uses_log_append_time(tmp_path: Path) -> None:
    settings = replace(SMALL, message_timestamp_type="LogAppendTime")
    log = Disk(tmp_path, settings=settings).create()
    result = log.append_as_leader(batch("a", timestamp=NOW + 100 * HOUR), 0, NOW + 5)
    assert result.log_append_time_ms == NOW + 5
    data = contents(log.reader.read(0, 10**6, 1, True))
    header = batches.read_header(data)
    assert header.is_log_append_time
    assert header.max_timestamp == NOW + 5
    assert batches.is_crc_valid(data, 0, header)
    assert [record.timestamp for record in iterate_records(data)] == [NOW + 5]


def test_a_batch_marked_log_append_time_is_refused_when_the_topic_stamps_itself(tmp_path: Path) -> None:
    settings = replace(SMALL, message_timestamp_type="LogAppendTime")
    assert refusal(tmp_path, batch("a", log_append_time_ms=NOW), settings).code == ErrorCode.INVALID_TIMESTAMP


def test_the_log_append_time_mark_is_taken_off_when_the_topic_uses_create_time(tmp_path: Path) -> None:
    header, data = stored(tmp_path, batch("a", log_append_time_ms=NOW), SMALL)
    assert not header.is_log_append_time
    assert [record.timestamp for record in iterate_records(data)] == [NOW]


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_records_survive_when_the_topic_asks_for_another_codec(tmp_path: Path, source: Codec, target: str) -> None:
    settings = replace(SMALL, compression_type=target, segment_bytes=10**6)
    data = build_batch([Record(b"k", b"value " * 20, (("h", b"x"),), NOW + i) for i in range(20)], codec=source)
    header, found = stored(tmp_path, data, settings)
    expected = {"uncompressed": Codec.NONE}.get(target) if target == "uncompressed" else Codec[target.upper()]
    assert header.compression == expected
    assert list(iterate_records(found)) == list(iterate_records(data))
    if source == expected:
        assert found[16:] == data[16:]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_passes_unopened_when_compression_type_is_producer(tmp_path: Path, codec: Codec) -> None:
    data = batch("a", "b", codec=codec)
    assert stored(tmp_path, data, SMALL)[1][16:] == data[16:]


def test_the_size_is_checked_again_when_a_batch_was_recompressed(tmp_path: Path) -> None:
    data = batch("a" * 900, codec=Codec.ZSTD)
    settings = replace(SMALL, compression_type="uncompressed", max_message_bytes=500)
    assert refusal(tmp_path, data, settings).code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_bomb_is_refused_when_it_would_have_to_be_recompressed(tmp_path: Path) -> None:
    header = batches.read_header(batch("a"))._replace(attributes=Codec.ZSTD)
    bomb = batches.build(header, compress(Codec.ZSTD, bytes(DECOMPRESSION_LIMIT + 1)))
    settings = replace(SMALL, compression_type="gzip", segment_bytes=10**6)
    assert refusal(tmp_path, bomb, settings).code == ErrorCode.CORRUPT_MESSAGE


def test_the_first_offset_is_answered_when_an_idempotent_batch_comes_again(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    for sequence in range(7):
        append(log, sequenced(sequence))
    for sequence in range(2, 7):
        again = log.append_as_leader(sequenced(sequence), 0, NOW)
        assert (again.base_offset, again.last_offset, again.is_duplicate) == (sequence, sequence, True)
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(sequenced(1), 0, NOW)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 7


def test_must_flush_is_said_when_flush_messages_is_reached(tmp_path: Path) -> None:
    log = Disk(tmp_path, settings=replace(SMALL, flush_messages=3)).create()
    assert [log.append_as_leader(batch("a"), 0, NOW).must_flush for _ in range(4)] == [False, False, True, True]
    log.flushing.flush()
    assert not log.append_as_leader(batch("a"), 0, NOW).must_flush


def test_last_stable_offset_stops_at_an_open_transaction_when_one_is_running(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    append(log, batch("a"))
    append(log, batch("t", producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True), batch("b"))
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    log = disk.reopen(log)
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 1
    marker = build_end_marker(EndMarker(CONTROL_COMMIT, 2), producer_id=9, producer_epoch=0, timestamp=NOW)
    log.append_as_leader(marker, 0, NOW, Origin.COORDINATOR)
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 4
    assert [(entry.coordinator_epoch, entry.last_sequence) for entry in log.producers.active()] == [(2, 0)]


def test_the_broker_may_write_what_clients_may_not_when_it_is_the_origin(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    marker = build_end_marker(EndMarker(CONTROL_COMMIT, 0), producer_id=1, producer_epoch=0, timestamp=NOW)
    assert log.append_as_leader(marker, 0, NOW, Origin.COORDINATOR).base_offset == 0
    compacted = Disk(tmp_path / "c", settings=replace(SMALL, cleanup_policy=frozenset({"compact"}))).create()
    assert compacted.append_as_leader(batch("a"), 0, NOW, Origin.COORDINATOR).base_offset == 0


def test_settings_count_from_the_next_append_when_they_change(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    log.update_settings(replace(SMALL, max_message_bytes=10))
    with pytest.raises(ApiError, match=r"max\.message\.bytes"):
        log.append_as_leader(batch("a"), 0, NOW)
