"""The 61-byte header of a record batch (magic 2), read and patched in place. Records stay opaque.

    0  base offset      i64 | 23 last offset delta i32 | 51 producer epoch i16
    8  batch length     i32 | 27 base timestamp    i64 | 53 base sequence  i32
    12 leader epoch     i32 | 35 max timestamp     i64 | 57 record count   i32
    16 magic             i8 | 43 producer id       i64 | 61 records
    17 crc              u32 |
    21 attributes       i16 |

The CRC-32C covers everything from the attributes on, so base offset and leader epoch change without touching it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c

from penstock.core.types import NO_PRODUCER_ID, NO_SEQUENCE, Buffer
from penstock.protocol.errors import ApiError, ErrorCode

HEADER_SIZE = 61
LOG_OVERHEAD = 12  # base offset and batch length: what comes before the bytes that `batch length` counts
MAGIC = 2
MAGIC_POSITION = 16
FLAGS_POSITION = 22  # the low byte of the attributes, which holds every flag
PREFIX_SIZE = 16  # base offset, batch length, leader epoch: all that the broker rewrites, and outside the CRC
CRC_START = 21
_CRC_PIECE_SIZE = 64 * 1024
# A record's size, attributes, two deltas, the sizes of key and value, and the number of headers.
LEAST_RECORD_BYTES = 7
# Compression makes records no smaller than a part of this. The best that was found are a million records that differ in
# their offsets alone, by zstd: a fifteenth. Blocks of one repeated byte shrink by more, and are no records.
_MOST_RATIO = 128

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_new_tuple = tuple.__new__  # half the cost of `_make`, which counts the fields
_PREFIX = struct.Struct(">qii")
_BATCH_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2^31-1 to 0; a batch without one has none at its end either."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME_FLAG)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_FLAG)

    @property
    def has_producer(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID


def can_hold(section_size: int, count: int, codec: int) -> bool:
    """Whether `section_size` bytes of records, compressed or not, may be as many records as that."""
    return count * LEAST_RECORD_BYTES <= (section_size * _MOST_RATIO if codec else section_size)


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, unchecked. The caller has made sure that HEADER_SIZE bytes are there."""
    return _new_tuple(BatchHeader, _HEADER.unpack_from(data, position))


def read_batch_size(data: Buffer, position: int = 0) -> int:
    """The size that the batch at `position` claims, LOG_OVERHEAD bytes of which are there."""
    size: int = _BATCH_LENGTH.unpack_from(data, position + 8)[0]
    return size + LOG_OVERHEAD


def pack_prefix(base_offset: int, batch_length: int, leader_epoch: int) -> bytes:
    """The first PREFIX_SIZE bytes anew, so that a read-only batch is stored with other offsets and not copied."""
    return _PREFIX.pack(base_offset, batch_length, leader_epoch)


def build(header: BatchHeader, records: Buffer) -> bytes:
    """A whole batch from its parts; batch length and CRC are computed, the header's own are ignored."""
    length = HEADER_SIZE - LOG_OVERHEAD + len(records)
    header = header._replace(batch_length=length, magic=MAGIC, crc=0)
    data = bytearray(HEADER_SIZE + len(records))
    _HEADER.pack_into(data, 0, *header)
    data[HEADER_SIZE:] = records
    _CRC.pack_into(data, 17, compute_crc(data, 0, len(data)))
    return bytes(data)


def iterate_batches(data: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every batch in `data`; ApiError CORRUPT_MESSAGE unless whole batches fill it exactly."""
    position, end = 0, len(data)
    while position < end:
        if end - position < HEADER_SIZE:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{end - position} bytes left over are too few for a batch")
        header = read_header(data, position)
        if header.magic != MAGIC:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"batch has magic {header.magic}; only 2 is supported")
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD or position + header.size > end:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"batch length {header.batch_length} does not fit the data")
        yield position, header
        position += header.size


def is_crc_valid(data: Buffer, position: int, header: BatchHeader) -> bool:
    return compute_crc(data, position, header.size) == header.crc


def compute_crc(data: Buffer, position: int, size: int) -> int:
    """Costs one copy, since google_crc32c takes only `bytes`, in pieces that stay in the cache and below the size at
    which the allocator maps fresh pages (tried whole: a third slower at 1 MB, most of it page faults). Bench: produce 1
    KiB.
    """
    if size <= _CRC_PIECE_SIZE:
        crc: int = google_crc32c.value(bytes(data[position + CRC_START : position + size]))
        return crc
    view = memoryview(data)[position + CRC_START : position + size]
    crc = 0
    for start in range(0, len(view), _CRC_PIECE_SIZE):
        crc = google_crc32c.extend(crc, bytes(view[start : start + _CRC_PIECE_SIZE]))
    return crc
