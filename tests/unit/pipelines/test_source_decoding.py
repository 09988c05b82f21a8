"""Decoding record batches whose headers and sizes do not agree. What is right is tested by tests/properties."""

from __future__ import annotations

import pytest

from penstock.client.batches.fetched_batches import Section
from penstock.pipelines.source.decoding import decode_sections
from penstock.protocol import batch as batches
from penstock.protocol.errors import ApiError
from penstock.protocol.records import Record, build_batch


def section(*values: bytes, base_offset: int = 0) -> Section:
    data = build_batch([Record(None, value, timestamp=0) for value in values], base_offset=base_offset)
    return Section(batches.read_header(data), data[batches.HEADER_SIZE :])


def decode(*sections: Section) -> list[bytes]:
    values: list[bytes] = decode_sections("t", 0, sections, 0, 2**62).column("value").to_pylist()
    return values


@pytest.mark.parametrize("size", [0, 1, 50, 51, 52, 60, 8000, 8180, 8190, 8200, 100_000, 2_000_000])
def test_records_are_found_when_their_length_takes_one_to_four_bytes(size: int) -> None:
    values = [b"first", bytes(size), b"last"]
    assert decode(section(*values), section(b"next", base_offset=3)) == [*values, b"next"]


@pytest.mark.parametrize("difference", [-1, 1, 2])
@pytest.mark.parametrize("is_last", [True, False])
def test_it_is_told_when_a_batch_holds_more_or_fewer_records_than_it_claims(difference: int, is_last: bool) -> None:
    honest = section(b"one", b"two", b"three")
    lying = honest._replace(header=honest.header._replace(record_count=3 + difference))
    following = [] if is_last else [section(b"four", base_offset=3)]
    with pytest.raises(ApiError, match="record"):
        decode(lying, *following)


@pytest.mark.parametrize("length", [b"\x00", b"\x01", b"\x7f", b"\xff\x7f", b"\x80\x00", b"\xff\xff\xff\xff\xff\x01"])
def test_it_is_told_when_a_record_claims_an_impossible_length(length: bytes) -> None:
    honest = section(b"one", b"two")
    broken = length + honest.records[len(length) :]
    with pytest.raises(ApiError):
        decode(Section(honest.header, broken))
