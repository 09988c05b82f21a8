from __future__ import annotations

import gzip
import os
import re
import struct
import tracemalloc
from pathlib import Path

import cramjam
import pytest

from penstock.protocol.compression import Codec, compress, decompress
from penstock.protocol.errors import ApiError, ErrorCode

TEXT = b"a line of text that repeats\n" * 5000
COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("data", [b"", b"x", TEXT, os.urandom(100_000)])
def test_data_comes_back_when_compressed_at_any_level(codec: Codec, data: bytes) -> None:
    for level in (None, 1, 9):
        assert decompress(codec, compress(codec, data, level), len(data)) == data


@pytest.mark.parametrize("codec", list(Codec))
def test_the_limit_holds_when_data_would_grow_past_it(codec: Codec) -> None:
    with pytest.raises(ApiError) as caught:
        decompress(codec, compress(codec, TEXT), len(TEXT) - 1)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert "limit" in caught.value.message


@pytest.mark.parametrize("codec", COMPRESSED)
def test_corrupt_message_is_said_when_data_is_cut_or_foreign(codec: Codec) -> None:
    data = compress(codec, TEXT)
    for damaged in (data[:-1], data[: len(data) // 2], data[:9], b"not compressed at all", b""):
        with pytest.raises(ApiError) as caught:
            decompress(codec, damaged, 10**6)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unsupported_compression_is_said_when_the_codec_does_not_exist(codec: int) -> None:
    with pytest.raises(ApiError) as caught:
        compress(codec, b"")
    assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(ApiError) as caught:
        decompress(codec, b"", 10)
    assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_snappy_travels_in_xerial_frames_when_compressed() -> None:
    data = compress(Codec.SNAPPY, TEXT)
    assert data[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    (size,) = struct.unpack_from(">i", data, 16)
    assert cramjam.snappy.decompress_raw(data[20 : 20 + size]).read() == TEXT[: 32 * 1024]


def test_raw_snappy_is_read_when_a_client_sends_it() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT


def test_lz4_blocks_are_independent_when_compressed() -> None:
    for data in (TEXT, os.urandom(150_000)):
        frame = compress(Codec.LZ4, data)
        assert frame[:7] == bytes.fromhex("04224d18604082")
        assert frame.endswith(bytes(4))
        assert cramjam.lz4.decompress(frame).read() == data


def test_linked_lz4_blocks_are_read_when_a_client_sends_them() -> None:
    assert decompress(Codec.LZ4, bytes(cramjam.lz4.compress(TEXT)), len(TEXT)) == TEXT


def test_gzip_members_are_joined_when_a_client_sends_several() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two"), 7) == b"one two"
    with pytest.raises(ApiError, match="limit"):
        decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two"), 6)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_stops_at_the_limit_when_decompressed(codec: Codec) -> None:
    bomb = compress(codec, bytes(8 * 1024 * 1024))
    with pytest.raises(ApiError, match="limit"):
        decompress(codec, bomb, 1024 * 1024)


def test_nothing_is_allocated_when_snappy_claims_two_gibibytes() -> None:
    """CVE-2023-34455."""
    claim = b"\xff\xff\xff\xff\x07" + b"\0abc"  # a varint of 2**31 - 1, and a few bytes
    framed = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(claim)) + claim
    for data in (claim, framed):
        tracemalloc.start()
        with pytest.raises(ApiError, match="limit") as caught:
            decompress(Codec.SNAPPY, data)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
        assert peak < 1_000_000


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 100])
def test_corrupt_message_is_said_when_a_snappy_block_claims_more_than_there_is(size: int) -> None:
    with pytest.raises(ApiError, match="does not fit"):
        decompress(Codec.SNAPPY, b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, size) + b"\x01\0a")


def test_work_is_bounded_when_gzip_has_members_without_end() -> None:
    member = gzip.compress(b"")
    assert decompress(Codec.GZIP, member * 1_000) == b""
    with pytest.raises(ApiError, match="members"):
        decompress(Codec.GZIP, member * 50_000)


def test_one_place_decompresses_what_clients_send() -> None:
    """Whoever opened a batch elsewhere would need a bound of its own. The other one reads what brokers wrote."""
    sources = Path(__file__).parents[3] / "src" / "penstock"
    found = {
        path.relative_to(sources).as_posix()
        for path in sources.rglob("*.py")
        if re.search(r"(zlib|gzip|cramjam|zstandard|lz4)\S*\.decompress", path.read_text())
    }
    assert found == {"protocol/compression.py", "cluster/deltas/encoding.py"}
