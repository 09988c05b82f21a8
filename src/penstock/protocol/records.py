"""The records inside a batch: full encode and decode, for the few that must look inside.

A record is: varint length, i8 attributes (0), varlong timestamp delta, varint offset delta, key and value (varint size,
-1 for null), varint header count, headers (key size, key, value size, value). Varints are zig-zag.
Decoding trusts nothing: every size is checked against what is left, and a batch must hold exactly the records it
claims.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.core.types import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Buffer,
)
from penstock.protocol import batch as batches
from penstock.protocol.batch import BatchHeader
from penstock.protocol.compression import DECOMPRESSION_LIMIT, Codec, compress, decompress
from penstock.protocol.errors import ApiError, ErrorCode

Headers = tuple[tuple[str, bytes | None], ...]

CONTROL_ABORT = 0
CONTROL_COMMIT = 1
_CONTROL_KEY = struct.Struct(">hh")  # version, type
_END_MARKER = struct.Struct(">hi")  # version, coordinator epoch


class Record(NamedTuple):
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp: int = NO_TIMESTAMP
    offset: int = 0  # ignored by build_batch, which numbers records in order


class EncodedRecords(NamedTuple):
    """The records of one batch, all of one time, numbered from 0 and encoded: what is left is the header."""

    section: bytes
    record_count: int
    timestamp_ms: int


class EndMarker(NamedTuple):
    """The one record of a control batch that ends a transaction."""

    control_type: int
    coordinator_epoch: int


class RecordOutline(NamedTuple):
    """What validation asks of a record, without copying key, value and headers out of it."""

    offset_delta: int
    timestamp_delta: int
    has_key: bool


def _corrupt(what: str) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, what)


# ---- varints


def encode_varint(value: int) -> bytes:
    """Zig-zag, at most ten bytes; a varlong is the same encoding of a wider number."""
    rest = (value << 1) ^ (value >> 63)
    rest &= 0xFFFFFFFFFFFFFFFF
    if rest < 0x80:
        return rest.to_bytes(1, "big")
    if rest < 0x4000:
        return bytes((rest & 0x7F | 0x80, rest >> 7))
    out = bytearray()
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode_varint(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """(value, position after it). ApiError CORRUPT_MESSAGE past `end` or past ten bytes."""
    result = shift = 0
    while True:
        if position >= end or shift > 63:
            raise _corrupt("a variable-length number is cut off or too long")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if result > 0xFFFFFFFFFFFFFFFF:
        raise _corrupt("a variable-length number is too large")
    return (result >> 1) ^ -(result & 1), position


# ---- encode


def encode_record(record: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    key, value = record.key, record.value
    parts = [
        b"\x00",
        encode_varint(timestamp_delta),
        encode_varint(offset_delta),
        b"\x01" if key is None else encode_varint(len(key)),
        key or b"",
        b"\x01" if value is None else encode_varint(len(value)),
        value or b"",
    ]
    parts.append(encode_varint(len(record.headers)))
    for name, value in record.headers:
        parts += _sized(name.encode("utf-8"))
        parts += _sized(value)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def _sized(field: bytes | None) -> tuple[bytes, bytes]:
    return (b"\x01", b"") if field is None else (encode_varint(len(field)), field)


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: int = Codec.NONE,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time_ms: int | None = None,
) -> bytes:
    """One batch with `records` numbered from `base_offset`; LogAppendTime when `log_append_time_ms` is given."""
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    attributes = codec
    if is_transactional:
        attributes |= batches.TRANSACTIONAL_FLAG
    if is_control:
        attributes |= batches.CONTROL_FLAG
    if log_append_time_ms is not None:
        attributes |= batches.LOG_APPEND_TIME_FLAG
        max_timestamp = log_append_time_ms
    section = b"".join(
        encode_record(record, delta, record.timestamp - base_timestamp) for delta, record in enumerate(records)
    )
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=batches.MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=max(len(records) - 1, 0),
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return batches.build(header, compress(codec, section))


def build_encoded_batch(
    records: EncodedRecords,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> bytes:
    """The same batch that `build_batch` makes of these records: one pass of CRC, however many they are."""
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=batches.MAGIC,
        crc=0,
        attributes=batches.TRANSACTIONAL_FLAG if is_transactional else 0,
        last_offset_delta=max(records.record_count - 1, 0),
        base_timestamp=records.timestamp_ms,
        max_timestamp=records.timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=records.record_count,
    )
    return batches.build(header, records.section)


def build_end_marker(
    marker: EndMarker, *, producer_id: int, producer_epoch: int, timestamp: int, base_offset: int = 0
) -> bytes:
    record = Record(
        _CONTROL_KEY.pack(0, marker.control_type), _END_MARKER.pack(0, marker.coordinator_epoch), (), timestamp
    )
    return build_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


# ---- decode


def iterate_records(batch: Buffer, limit: int = DECOMPRESSION_LIMIT) -> Iterator[Record]:
    """The records of the one batch in `batch`, at most `limit` bytes of them when decompressed."""
    header, data = open_batch(batch, limit)
    position, end = 0, len(data)
    log_append_time = header.max_timestamp if header.is_log_append_time else None
    for _ in range(header.record_count):
        record, position = _decode_record(data, position, end, header, log_append_time)
        yield record
    if position != end:
        raise _corrupt(f"{end - position} bytes are left over after the last record")


def iterate_outlines(batch: Buffer, limit: int = DECOMPRESSION_LIMIT) -> Iterator[RecordOutline]:
    """Like `iterate_records`, but only what validation needs: 1.5 us per record instead of 3.9."""
    header, data = open_batch(batch, limit)
    position, end = 0, len(data)
    for _ in range(header.record_count):
        size, start = decode_varint(data, position, end)
        if not 0 < size <= end - start:
            raise _corrupt(f"a record of {size} bytes does not fit the {end - start} that are left")
        position = start + size
        timestamp_delta, at = decode_varint(data, start + 1, position)
        offset_delta, at = decode_varint(data, at, position)
        key_size, at = decode_varint(data, at, position)
        if key_size > position - at:
            raise _corrupt(f"a key of {key_size} bytes does not fit its record")
        yield RecordOutline(offset_delta, timestamp_delta, key_size >= 0)
    if position != end:
        raise _corrupt(f"{end - position} bytes are left over after the last record")


def open_batch(batch: Buffer, limit: int = DECOMPRESSION_LIMIT) -> tuple[BatchHeader, bytes]:
    """The header and the uncompressed records section of the one batch in `batch`."""
    if len(batch) < batches.HEADER_SIZE:
        raise _corrupt(f"{len(batch)} bytes are too few for a batch")
    header = batches.read_header(batch)
    if header.magic != batches.MAGIC or header.size != len(batch) or header.record_count < 0:
        raise _corrupt("the batch header does not fit the data")
    return header, decompress(header.compression, memoryview(batch)[batches.HEADER_SIZE :], limit)


def decode_control_type(key: bytes | None) -> int:
    """Of a control record with this key."""
    if key is None or len(key) < _CONTROL_KEY.size:
        raise _corrupt("a control record has no key")
    control_type: int = _CONTROL_KEY.unpack_from(key)[1]
    return control_type


def decode_end_marker(record: Record) -> EndMarker | None:
    """The marker, or None for a control record that does not end a transaction."""
    control_type = decode_control_type(record.key)
    if control_type not in (CONTROL_ABORT, CONTROL_COMMIT):
        return None
    if record.value is None or len(record.value) < _END_MARKER.size:
        raise _corrupt("a transaction marker has no value")
    _, coordinator_epoch = _END_MARKER.unpack_from(record.value)
    return EndMarker(control_type, coordinator_epoch)


def _decode_record(
    data: bytes, position: int, end: int, header: BatchHeader, log_append_time: int | None
) -> tuple[Record, int]:
    size, position = decode_varint(data, position, end)
    if not 0 < size <= end - position:
        raise _corrupt(f"a record of {size} bytes does not fit the {end - position} that are left")
    end = position + size
    timestamp_delta, position = decode_varint(data, position + 1, end)
    offset_delta, position = decode_varint(data, position, end)
    key, position = decode_sized(data, position, end)
    value, position = decode_sized(data, position, end)
    count, position = decode_varint(data, position, end)
    # A header takes two bytes at least, so a count beyond that is a lie told before any allocation.
    if not 0 <= count <= (end - position) // 2:
        raise _corrupt(f"a record cannot hold {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = decode_sized(data, position, end)
        if name is None:
            raise _corrupt("a record header has no key")
        header_value, position = decode_sized(data, position, end)
        headers.append((name.decode("utf-8", "replace"), header_value))
    if position != end:
        raise _corrupt(f"{end - position} bytes are left over in a record")
    timestamp = header.base_timestamp + timestamp_delta if log_append_time is None else log_append_time
    return Record(key, value, tuple(headers), timestamp, header.base_offset + offset_delta), end


def decode_sized(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """(a field behind its size, position after it); the field is None where the size is negative."""
    size, position = decode_varint(data, position, end)
    if size < 0:
        return None, position
    if size > end - position:
        raise _corrupt(f"a field of {size} bytes does not fit the {end - position} that are left")
    return data[position : position + size], position + size
