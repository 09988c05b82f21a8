"""The id, the guid and the message indexes in front of payloads, and in headers."""

from __future__ import annotations

import pytest

from penstock.serdes.errors import FramingError
from penstock.serdes.framing import Frame, header_value, prefix, read_frame, read_indexes, write_indexes

GUID = "89791762-2336-186f-8aac-2b1eb8a4fbbe"


def test_the_id_is_read_when_it_is_in_front() -> None:
    assert prefix(258) == b"\x00\x00\x00\x01\x02"
    assert read_frame(prefix(258) + b"abc") == Frame(258, None, b"abc")


def test_the_header_is_read_first_when_there_is_one() -> None:
    headers = [("other", b"x"), ("__value_schema_id", header_value(GUID) + b"\x00")]
    assert read_frame(b"\x00abcdef", headers) == Frame(None, GUID, b"\x00abcdef", b"\x00")
    assert read_frame(prefix(1), headers, is_key=True) == Frame(1, None, b"")
    assert read_frame(b"p", [("__key_schema_id", prefix(7))], is_key=True) == Frame(7, None, b"p", b"")


@pytest.mark.parametrize("data", [b"", b"\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01", b"{}"])
def test_a_payload_is_refused_when_it_names_no_schema(data: bytes) -> None:
    with pytest.raises(FramingError, match="does not begin"):
        read_frame(data)


@pytest.mark.parametrize("header", [b"", b"\x01short", b"\x00\x01", b"\x02" + bytes(16)])
def test_a_header_is_refused_when_it_names_no_schema(header: bytes) -> None:
    with pytest.raises(FramingError, match="__value_schema_id"):
        read_frame(prefix(1), [("__value_schema_id", header)])


@pytest.mark.parametrize(
    ("indexes", "data"),
    [((0,), b"\x00"), ((1,), b"\x02\x02"), ((0, 0), b"\x04\x00\x00"), ((2, 64), b"\x04\x04\x80\x01")],
)
def test_indexes_are_zigzag_numbers_behind_their_count(indexes: tuple[int, ...], data: bytes) -> None:
    assert write_indexes(indexes) == data
    assert read_indexes(data + b"rest") == (indexes, len(data))


@pytest.mark.parametrize("data", [b"", b"\x04\x02", b"\x01", b"\xff\xff\xff\xff\xff\xff", b"\xfe\x7f"])
def test_indexes_are_refused_when_they_are_none(data: bytes) -> None:
    with pytest.raises(FramingError):
        read_indexes(data)
