from __future__ import annotations

import pytest

from penstock.protocol import batch as batches
from penstock.protocol.errors import ApiError
from penstock.protocol.records import Record, build_batch

RECORDS = [Record(b"k", b"v", (), 1000), Record(b"k", b"w", (), 2000)]
DATA = build_batch(RECORDS, producer_id=5, producer_epoch=1, base_sequence=2**31 - 1)


def test_the_checksum_still_holds_when_offset_and_epoch_are_patched() -> None:
    data = bytearray(DATA)
    batches.set_base_offset(data, 0, 77)
    batches.set_leader_epoch(data, 0, 3)
    header = batches.read_header(data)
    assert (header.base_offset, header.last_offset, header.next_offset, header.leader_epoch) == (77, 78, 79, 3)
    assert header.last_sequence == 0
    assert batches.is_crc_valid(data, 0, header)
    assert batches.pack_prefix(77, header.batch_length, 3) + DATA[16:] == bytes(data)


def test_the_checksum_is_renewed_when_the_broker_stamps_the_batch() -> None:
    data = bytearray(DATA)
    batches.set_log_append_time(data, 0, batches.read_header(data), 99)
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
