"""The `.snapshot` file: producer state at the offset in its name.

    i16 version = 1, u32 CRC-32C of what follows, i32 count, then per producer
    i64 id, i16 epoch, i32 last sequence, i64 last offset, i32 offset delta, i64 timestamp, i32 coordinator epoch,
    i64 first offset of the open transaction (-1)

The file has only the newest batch of each producer, as in Kafka. `earlier_batches` finds the four before it in the log
on demand.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import google_crc32c

from penstock.log.state.producer_state import BatchMetadata, ProducerStateEntry

_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


def encode_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    packed = [
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.current_transaction_first_offset,
        )
        for entry in entries
    ]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, google_crc32c.value(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerStateEntry]:
    """ValueError when the file is cut, damaged or of another version."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise ValueError(f"{len(data)} bytes are too few for a producer snapshot")
    version, crc = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if version != _VERSION:
        raise ValueError(f"producer snapshot version {version} is not {_VERSION}")
    if google_crc32c.value(body) != crc:
        raise ValueError("the checksum of the producer snapshot does not match")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * _ENTRY.size:
        raise ValueError(f"the producer snapshot does not hold {count} entries")
    return [_decode_entry(fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


def _decode_entry(fields: tuple[int, int, int, int, int, int, int, int]) -> ProducerStateEntry:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first_offset = fields
    batches = [BatchMetadata(last_sequence, last_offset, delta, timestamp)] if last_offset >= 0 else []
    entry = ProducerStateEntry(producer_id, epoch, coordinator_epoch, timestamp, first_offset, batches)
    entry.is_from_snapshot = True
    return entry
