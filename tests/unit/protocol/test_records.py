from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol import batch as batches
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import (
    CONTROL_ABORT,
    CONTROL_COMMIT,
    EncodedRecords,
    EndMarker,
    Record,
    build_batch,
    build_encoded_batch,
    build_end_marker,
    decode_end_marker,
    decode_varint,
    encode_record,
    encode_varint,
    iterate_outlines,
    iterate_records,
)

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (2**31 - 1, "feffffff0f"),
     (-(2**63), "ffffffffffffffffff01")],
)  # fmt: skip
def test_varints_are_zigzag_when_encoded(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert decode_varint(bytes.fromhex(encoded), 0, len(encoded) // 2) == (value, len(encoded) // 2)


@pytest.mark.parametrize("data", ["", "80", "ffffffffffffffffffff01", "ffffffffffffffffff7f"])
def test_a_varint_is_refused_when_cut_off_or_too_long(data: str) -> None:
    with pytest.raises(ApiError):
        decode_varint(bytes.fromhex(data), 0, len(data) // 2)


def test_the_batch_is_the_one_kafka_writes_when_built() -> None:
    data = build_batch([Record(b"k", b"v", (("h", b"x"),), NOW)], base_offset=5, leader_epoch=2)
    assert data[61:].hex() == "18" + "00" + "00" + "00" + "026b" + "0276" + "02" + "0268" + "0278"
    header = batches.read_header(data)
    assert header.size == len(data)
    assert (header.base_offset, header.leader_epoch, header.base_timestamp, header.max_timestamp) == (5, 2, NOW, NOW)
    assert batches.is_crc_valid(data, 0, header)


def test_timestamps_are_the_brokers_when_the_batch_has_log_append_time() -> None:
    data = build_batch([Record(b"k", None, (), NOW), Record(None, b"v", (), NOW + 5)], log_append_time_ms=NOW + 99)
    assert [record.timestamp for record in iterate_records(data)] == [NOW + 99, NOW + 99]


@pytest.mark.parametrize("control_type", [CONTROL_ABORT, CONTROL_COMMIT])
def test_a_marker_comes_back_when_built(control_type: int) -> None:
    marker = EndMarker(control_type, 17)
    data = build_end_marker(marker, producer_id=3, producer_epoch=1, timestamp=NOW)
    header = batches.read_header(data)
    assert header.is_control
    assert header.is_transactional
    (record,) = iterate_records(data)
    assert decode_end_marker(record) == marker


def test_other_control_records_are_passed_over_when_decoded() -> None:
    assert decode_end_marker(Record(b"\x00\x00\x00\x03", b"")) is None
    for record in (Record(None, b""), Record(b"\x00", b""), Record(b"\x00\x00\x00\x01", b"\x00")):
        with pytest.raises(ApiError):
            decode_end_marker(record)


@pytest.mark.parametrize(
    "section",
    [
        "",  # no record at all
        "0c",  # a length and nothing behind it
        "0e00000001010000",  # bytes left over in the record
        "0c0000000101" + "00" + "00",  # bytes left over after it
        "0c00000001017e",  # 63 headers in no bytes
        "0c00000001" + "7e" + "00",  # a value longer than the record
        "0c0000007e" + "01" + "00",  # a key longer than the record
        "0e00000001010201",  # a header without a key
        "01",  # a negative length
        "00",  # an empty record
    ],
)
def test_corrupt_message_is_said_when_a_record_breaks_its_bounds(section: str) -> None:
    header = batches.read_header(build_batch([Record()]))
    data = batches.build(header, bytes.fromhex(section))
    with pytest.raises(ApiError) as caught:
        list(iterate_records(data))
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_corrupt_message_is_said_when_the_count_is_wrong() -> None:
    data = build_batch([Record(b"a"), Record(b"b")])
    for count in (1, 3, 2**31 - 1, -1):
        wrong = batches.build(batches.read_header(data)._replace(record_count=count), data[61:])
        for read in (iterate_records, iterate_outlines):
            with pytest.raises(ApiError):
                list(read(wrong))


def test_the_limit_holds_when_a_compressed_batch_grows() -> None:
    data = build_batch([Record(b"k", bytes(100_000))], codec=Codec.ZSTD)
    with pytest.raises(ApiError, match="limit"):
        list(iterate_records(data, 50_000))


@pytest.mark.parametrize("producer", [{}, {"producer_id": 7, "producer_epoch": 1, "base_sequence": 0}])
def test_the_batch_is_the_same_when_its_records_were_encoded_before(producer: dict[str, Any]) -> None:
    records = [Record(b"k%d" % index, b"v" * index or None, timestamp=5) for index in range(200)]
    section = b"".join(encode_record(record, index, 0) for index, record in enumerate(records))
    is_transactional = bool(producer)
    encoded = EncodedRecords(section, len(records), 5)
    assert build_encoded_batch(encoded, **producer, is_transactional=is_transactional) == build_batch(
        records, **producer, is_transactional=is_transactional
    )
