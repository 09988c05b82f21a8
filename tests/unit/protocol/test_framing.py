from __future__ import annotations

import struct

import pytest

from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.framing import (
    decode_client_id,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)

FIXED = bytes.fromhex("0012 0003 0000002a")  # ApiVersions, version 3, correlation id 42


def test_fields_are_read_when_the_fixed_part_is_there() -> None:
    assert decode_request_header(FIXED) == (18, 3, 42)
    assert decode_request_header(b"\xff" * 8) == (-1, -1, -1)


@pytest.mark.parametrize("size", range(8))
def test_request_is_invalid_when_it_is_shorter_than_its_header(size: int) -> None:
    with pytest.raises(ApiError) as caught:
        decode_request_header(FIXED[:size])
    assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("rest", "flexible", "client_id", "body_at"),
    [
        (b"\xff\xff", False, None, 10),
        (b"\x00\x00", False, "", 10),
        (b"\x00\x02me", False, "me", 12),
        (b"\x00\x04\xf0\x9f\x90\xbb", False, "\N{BEAR FACE}", 14),
        (b"\x00\x02me\x00", True, "me", 13),
        (b"\xff\xff\x00", True, None, 11),
        (b"\xff\xff\x01\x07\x03abc", True, None, 16),
        (b"\xff\xff\x02\x00\x00\x80\x01\x01x", True, None, 17),
    ],
)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_body_is_found_when_client_id_and_tags_come_first(
    rest: bytes, flexible: bool, client_id: str | None, body_at: int, kind: type[bytes]
) -> None:
    assert decode_client_id(kind(FIXED + rest + b"body"), flexible) == (client_id, body_at)


@pytest.mark.parametrize(
    ("rest", "flexible"),
    [
        (b"", False),
        (b"\x00", False),
        (b"\x00\x03me", False),
        (b"\x7f\xff", False),
        (b"\x00\x01\xff", False),  # not UTF-8
        (b"\xff\xff", True),  # no tags
        (b"\xff\xff\x01", True),
        (b"\xff\xff\x01\x07\x04abc", True),  # runs past the end
        (b"\xff\xff\x80\x80\x80\x80\x80\x01", True),  # a number of six bytes
        (b"\xff\xff\xff\xff\xff\xff\x0f" + bytes(100), True),  # four billion tags
        (b"\xff\xff\x65" + bytes(202), True),  # more tags than any client has
        (b"\xff\xff\x01\x07\xff\xff\xff\xff\x0f", True),
    ],
)
def test_header_is_invalid_when_it_is_malformed(rest: bytes, flexible: bool) -> None:
    with pytest.raises(ApiError) as caught:
        decode_client_id(FIXED + rest, flexible)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("client_id", [None, "", "me", "\N{BEAR FACE}"])
@pytest.mark.parametrize("flexible", [False, True])
def test_header_is_the_same_when_written_and_read(client_id: str | None, flexible: bool) -> None:
    data = encode_request_header(18, 3, 42, client_id, flexible)
    assert data.startswith(FIXED)
    assert decode_request_header(data) == (18, 3, 42)
    assert decode_client_id(data, flexible) == (client_id, len(data))


def test_header_has_these_bytes_when_written() -> None:
    assert encode_request_header(1, 4, -1, "c", False) == bytes.fromhex("0001 0004 ffffffff 0001 63")
    assert encode_request_header(1, 12, 7, None, True) == bytes.fromhex("0001 000c 00000007 ffff 00")


def test_response_header_is_the_same_when_written_and_read() -> None:
    assert encode_response_header(7, False) == bytes.fromhex("00000007")
    assert encode_response_header(-7, True) == bytes.fromhex("fffffff900")
    assert decode_response_header(bytes.fromhex("00000007 0001"), False) == (7, 4)
    assert decode_response_header(bytes.fromhex("00000007 01 05 02 abcd 0001"), True) == (7, 9)


def test_header_cannot_be_written_when_the_client_id_is_too_long() -> None:
    with pytest.raises(struct.error):
        encode_request_header(1, 4, 1, "c" * 40_000, False)
