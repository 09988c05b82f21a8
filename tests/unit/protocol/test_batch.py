from __future__ import annotations

import pytest

from penstock.protocol import batch as batches
from penstock.protocol.errors import ApiError
from penstock.protocol.records import Record, build_batch

RECORDS = [Record(b"k", b"v", (), 1000), Record(b"k", b"w", (), 2000)]
DATA = build_batch(RECORDS, producer_id=5, producer_epoch=1, base_sequence=2**31 - 1)


def test_the_checksum_still_holds_when_offset_and_epoch_are_patched() -> None:
    data = batches.pack_prefix(77, batches.read_header(DATA).batch_length, 3) + DATA[16:]
    header = batches.read_header(data)
    assert (header.base_offset, header.last_offset, header.next_offset, header.leader_epoch) == (77, 78, 79, 3)
    assert header.last_sequence == 0
    assert batches.is_crc_valid(data, 0, header)


def test_the_checksum_holds_when_the_batch_has_the_brokers_time() -> None:
    data = build_batch(RECORDS, log_append_time_ms=99)
    header = batches.read_header(data)
    assert header.is_log_append_time
    assert header.max_timestamp == 99
    assert batches.is_crc_valid(data, 0, header)


def test_every_batch_is_found_when_several_follow_one_another() -> None:
    found = list(batches.iterate_batches(DATA + DATA))
    assert [position for position, _ in found] == [0, len(DATA)]


@pytest.mark.parametrize("data", [DATA[:60], DATA[:-1], DATA + b"x", b"\x00" * 80, DATA[:8] + b"\xff" * 4 + DATA[12:]])
def test_corrupt_message_is_said_when_batches_do_not_fill_the_data(data: bytes) -> None:
    with pytest.raises(ApiError):
        list(batches.iterate_batches(data))


# One record (key "k", value "v", timestamp 1,700,000,000,000) written out by hand from the layout in Kafka's
# documentation; the checksum was computed with another CRC-32C.
BY_HAND = bytes.fromhex(
    "0000000000000000"  # base offset
    "0000003a"  # batch length: 70 - 12
    "ffffffff"  # leader epoch
    "02"  # magic
    "00000000"  # crc, filled in below
    "0000"  # attributes
    "00000000"  # last offset delta
    "0000018bcfe56800"  # base timestamp
    "0000018bcfe56800"  # max timestamp
    "ffffffffffffffff"  # producer id
    "ffff"  # producer epoch
    "ffffffff"  # base sequence
    "00000001"  # record count
    "10"  # record: length 8
    "00"  # attributes
    "00"  # timestamp delta
    "00"  # offset delta
    "026b"  # key
    "0276"  # value
    "00"  # headers
)


def _crc32c(data: bytes) -> int:
    """Bit by bit, from the polynomial alone."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_every_byte_is_where_kafka_puts_it_when_a_batch_is_built() -> None:
    by_hand = BY_HAND[:17] + _crc32c(BY_HAND[21:]).to_bytes(4, "big") + BY_HAND[21:]
    assert build_batch([Record(b"k", b"v", (), 1_700_000_000_000)]) == by_hand
    header = batches.read_header(by_hand)
    assert header == batches.BatchHeader(
        base_offset=0,
        batch_length=58,
        leader_epoch=-1,
        magic=2,
        crc=_crc32c(BY_HAND[21:]),
        attributes=0,
        last_offset_delta=0,
        base_timestamp=1_700_000_000_000,
        max_timestamp=1_700_000_000_000,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=1,
    )
    assert batches.build(header, by_hand[61:]) == by_hand


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (0b000_0000, (0, False, False, False, False)),
        (0b000_0100, (4, False, False, False, False)),
        (0b000_1011, (3, True, False, False, False)),
        (0b001_0000, (0, False, True, False, False)),
        (0b011_0000, (0, False, True, True, False)),
        (0b100_0000, (0, False, False, False, True)),
    ],
)
def test_flags_are_read_from_their_bits_when_set(attributes: int, expected: tuple[int, bool, bool, bool, bool]) -> None:
    header = batches.read_header(DATA)._replace(attributes=attributes)
    found = (
        header.compression,
        header.is_log_append_time,
        header.is_transactional,
        header.is_control,
        header.has_delete_horizon,
    )
    assert found == expected


def test_damage_is_seen_when_any_covered_byte_changes() -> None:
    for position in range(21, len(DATA)):
        data = bytearray(DATA)
        data[position] ^= 1
        assert not batches.is_crc_valid(data, 0, batches.read_header(data)), position
