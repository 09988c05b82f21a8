"""The four codecs of a record batch, in the framing that Kafka's clients use.

Snappy travels in the xerial stream framing (raw snappy is accepted as well), lz4 as a frame of independent blocks
(Kafka's reader refuses linked ones), gzip and zstd as plain streams. What a client compressed is hostile until
decompressed: `decompress` never produces more than `limit` bytes.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Callable

import cramjam

from penstock.core.types import Buffer
from penstock.protocol.errors import ApiError, ErrorCode


class Codec(enum.IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_NAMES: dict[str, Codec] = {
    "none": Codec.NONE,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}

# No honest batch comes near: max.message.bytes is 1 MiB by default and text shrinks about ten times.
DECOMPRESSION_LIMIT = 128 * 1024 * 1024

_INT = struct.Struct(">i")
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_SIZE = 32 * 1024
# Magic, FLG 0x60 (version 1, independent blocks, no checksums), BD 0x40 (64 KiB blocks), header checksum of these two.
_LZ4_FRAME_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_SIZE = 64 * 1024
_LZ4_UNCOMPRESSED = 0x80000000
_LZ4_END = bytes(4)
_GZIP_PIECE_SIZE = 16 * 1024
_GZIP_MEMBERS = 1_000  # clients write one; each takes 14 us
_FIRST_GUESS = 64 * 1024  # most batches fit at once; the buffer then doubles up to the limit
_OUTPUT_FULL = "failed to write whole buffer"  # how cramjam says that the output did not fit


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    try:
        encode = _COMPRESSORS[codec]
    except KeyError:
        raise _unknown(codec) from None
    return encode(data, level)


def decompress(codec: int, data: Buffer, limit: int = DECOMPRESSION_LIMIT) -> bytes:
    """ApiError CORRUPT_MESSAGE when `data` is damaged or would grow past `limit` bytes."""
    try:
        decode = _DECOMPRESSORS[codec]
    except KeyError:
        raise _unknown(codec) from None
    try:
        return decode(data, limit)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{Codec(codec).name.lower()} data is damaged: {error}") from error


def _unknown(codec: int) -> ApiError:
    return ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {codec}")


def _too_large(limit: int) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"compressed data grows past the limit of {limit} bytes")


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
    return compressor.compress(data) + compressor.flush()


def _compress_snappy(data: Buffer, level: int | None) -> bytes:
    view, chunks = memoryview(data), [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        chunks += (_INT.pack(len(block)), block)
    return b"".join(chunks)


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    """Built by hand from blocks: cramjam's own frames link their blocks, which Kafka's reader refuses."""
    view, chunks = memoryview(data), [_LZ4_FRAME_HEADER]
    for start in range(0, len(view), _LZ4_BLOCK_SIZE):
        plain = view[start : start + _LZ4_BLOCK_SIZE]
        if level is None:
            block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        else:
            block = bytes(
                cramjam.lz4.compress_block(plain, mode="high_compression", compression=level, store_size=False)
            )
        if len(block) < len(plain):
            chunks += (struct.pack("<I", len(block)), block)
        else:
            chunks += (struct.pack("<I", len(plain) | _LZ4_UNCOMPRESSED), bytes(plain))
    chunks.append(_LZ4_END)
    return b"".join(chunks)


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


def _decompress_none(data: Buffer, limit: int) -> bytes:
    if len(data) > limit:
        raise _too_large(limit)
    return bytes(data)


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    """Members may follow one another; zlib bounds its output by itself. It is fed in pieces, because it copies what is
    left behind a member: 50,000 empty members in a batch of 1 MiB took 2 s.
    """
    view, position, size = memoryview(data), 0, 0
    chunks: list[bytes] = []
    for _ in range(_GZIP_MEMBERS):
        member = zlib.decompressobj(31)
        while not member.eof:
            piece = view[position : position + _GZIP_PIECE_SIZE]
            if not piece:
                raise zlib.error("the stream ends too early")
            chunk = member.decompress(piece, limit - size + 1)
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            chunks.append(chunk)
            position += len(piece) - len(member.unused_data)
        if position == len(view):
            return b"".join(chunks)
    raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the gzip data has more than {_GZIP_MEMBERS} members")


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_raw_snappy(view, limit)
    if len(view) < len(_XERIAL_HEADER):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the snappy stream ends inside its header")
    chunks: list[bytes] = []
    position, end, size = len(_XERIAL_HEADER), len(view), 0
    while position < end:
        (block_size,) = _INT.unpack_from(view, position)
        position += 4
        if not 0 <= block_size <= end - position:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a snappy block of {block_size} bytes does not fit the data")
        block = _decompress_raw_snappy(view[position : position + block_size], limit - size)
        chunks.append(block)
        size += len(block)
        position += block_size
    return b"".join(chunks)


def _decompress_raw_snappy(view: memoryview, limit: int) -> bytes:
    # The size stands in front, and is checked before anything is allocated for it.
    if cramjam.snappy.decompress_raw_len(view) > limit:
        raise _too_large(limit)
    return bytes(cramjam.snappy.decompress_raw(view))


def _decompress_into(decode: Callable[[Buffer, bytearray], int], data: Buffer, limit: int) -> bytes:
    capacity = min(limit, max(_FIRST_GUESS, 4 * len(data)))
    while True:
        output = bytearray(capacity)
        try:
            size = decode(data, output)
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise
            if capacity >= limit:
                raise _too_large(limit) from error
            capacity = min(limit, 2 * capacity)
        else:
            return bytes(memoryview(output)[:size])


def _decompress_lz4(data: Buffer, limit: int) -> bytes:
    return _decompress_into(cramjam.lz4.decompress_into, data, limit)


def _decompress_zstd(data: Buffer, limit: int) -> bytes:
    return _decompress_into(cramjam.zstd.decompress_into, data, limit)


_COMPRESSORS: dict[int, Callable[[Buffer, int | None], bytes]] = {
    Codec.NONE: lambda data, level: bytes(data),
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}
_DECOMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {
    Codec.NONE: _decompress_none,
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
