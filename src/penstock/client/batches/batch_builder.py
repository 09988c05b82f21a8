"""Records that are still to be written, as the bytes of one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from penstock.core.types import NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from penstock.protocol import batch as batches
from penstock.protocol.batch import BatchHeader
from penstock.protocol.compression import Codec, compress
from penstock.protocol.records import Headers, encode_varint

# The numbers that records are full of, encoded: sizes and offsets within the batch.
_TABLE_SIZE = 8192
_NUMBERS = tuple(map(encode_varint, range(_TABLE_SIZE)))
_NULL = b"\x01"


class NewRecord(NamedTuple):
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None  # None is the time of the call


# The same without the class, whose constructor costs seven times a tuple's: for those who write thousands at once.
RecordFields: TypeAlias = tuple[bytes | None, bytes | None, Headers, int | None]


class Sequenced(NamedTuple):
    """Whose batch it is, and the number of its first record among those of the producer in the partition."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    sequence: int = NO_SEQUENCE


class PreparedBatch(NamedTuple):
    """Everything but the sequence: a batch may be sent again under another one."""

    section: bytes  # compressed
    codec: Codec
    record_count: int
    base_timestamp: int
    max_timestamp: int


def prepare_batch(records: Sequence[RecordFields], now_ms: int, codec: Codec = Codec.NONE) -> PreparedBatch:
    section, base_timestamp, max_timestamp = encode_section(records, now_ms)
    return PreparedBatch(compress(codec, section), codec, len(records), base_timestamp, max_timestamp)


def finish_batch(batch: PreparedBatch, by: Sequenced, *, is_transactional: bool = False) -> bytes:
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=batches.MAGIC,
        crc=0,
        attributes=batch.codec | (batches.TRANSACTIONAL_FLAG if is_transactional else 0),
        last_offset_delta=batch.record_count - 1,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=by.producer_id,
        producer_epoch=by.producer_epoch,
        base_sequence=by.sequence,
        record_count=batch.record_count,
    )
    return batches.build(header, batch.section)


def encode_section(records: Sequence[RecordFields], now_ms: int) -> tuple[bytes, int, int]:
    """The bytes, the first record's time and the latest time.

    Costs 0.3 us a record of 100 bytes where `records.encode_record` takes 1.5: numbers come from a table. A property
    test holds both to the same bytes.
    """
    numbers = _NUMBERS
    first = records[0][3]
    base = latest = now_ms if first is None else first
    parts: list[bytes] = []
    for delta, (key, value, headers, time) in enumerate(records):
        if time is None:
            time = now_ms
        if time > latest:
            latest = time
        fields = (
            b"\0",
            numbers[0] if time == base else encode_varint(time - base),
            numbers[delta] if delta < _TABLE_SIZE else encode_varint(delta),
            _NULL if key is None else numbers[len(key)] if len(key) < _TABLE_SIZE else encode_varint(len(key)),
            key or b"",
            _NULL if value is None else numbers[len(value)] if len(value) < _TABLE_SIZE else encode_varint(len(value)),
            value or b"",
            _encode_headers(headers) if headers else b"\0",
        )
        body = b"".join(fields)
        size = len(body)
        parts.append(numbers[size] if size < _TABLE_SIZE else encode_varint(size))
        parts.append(body)
    return b"".join(parts), base, latest


def _encode_headers(headers: Headers) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        key = name.encode()
        parts += (encode_varint(len(key)), key)
        parts += (_NULL,) if value is None else (encode_varint(len(value)), value)
    return b"".join(parts)
