"""The partition of a coordinator's topic for a group or a transactional id.

Nothing is cached: the ids come from clients, and any client may send any number of long ones. The hash of a usual id
costs about a microsecond, that of the longest id (32,767 characters) less than a millisecond.
"""

from __future__ import annotations

import struct
from operator import mul

_UINT32_MASK = 0xFFFFFFFF
_INT32_SIGN = 0x80000000
# A longer id is hashed in whole chunks. For a shorter id that does not pay.
_SHORT_UNITS = 64
# A chunk is one large number, in which each unit of UTF-16 has a lane of 16 bits. A fold makes one lane of two, with a
# few operations for all lanes of the chunk. After five folds a lane has the hash of 32 units: below 2^175 in 512 bits,
# of which the lower 64 are taken.
_CHUNK_UNITS = 512
_CHUNK_BYTES = 2 * _CHUNK_UNITS
_FOLDED_UNITS = 32


def _folds() -> list[tuple[int, int, int]]:
    """(bits of a lane, the lower lane of each two, the factor of the upper lane)"""
    folds = []
    units = 1
    while units < _FOLDED_UNITS:
        lane_bytes = 2 * units
        lower = (bytes(lane_bytes) + b"\xff" * lane_bytes) * (_CHUNK_BYTES // (2 * lane_bytes))
        folds.append((8 * lane_bytes, int.from_bytes(lower, "big"), 31**units))
        units *= 2
    return folds


_FOLDS = _folds()
_LANES = struct.Struct(">" + "56xQ" * (_CHUNK_UNITS // _FOLDED_UNITS))
_POWERS = [pow(31, exponent, 1 << 32) for exponent in range(_CHUNK_UNITS - _FOLDED_UNITS, -1, -_FOLDED_UNITS)]
_CHUNK_POWER = pow(31, _CHUNK_UNITS, 1 << 32)


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, wrapping at 32 bits, signed."""
    result = 0
    if len(text) <= _SHORT_UNITS and text.isascii():
        for unit in text.encode():
            result = result * 31 + unit
    else:
        encoded = text.encode("utf-16-be", "surrogatepass")
        # Leading zeros do not count.
        encoded = bytes(-len(encoded) % _CHUNK_BYTES) + encoded
        for start in range(0, len(encoded), _CHUNK_BYTES):
            chunk = _hash_chunk(encoded[start : start + _CHUNK_BYTES])
            result = (result * _CHUNK_POWER + chunk) & _UINT32_MASK
    result &= _UINT32_MASK
    return result - (1 << 32) if result & _INT32_SIGN else result


def _hash_chunk(chunk: bytes) -> int:
    lanes = int.from_bytes(chunk, "big")
    for bits, lower, factor in _FOLDS:
        lanes = (lanes >> bits & lower) * factor + (lanes & lower)
    return sum(map(mul, _LANES.unpack(lanes.to_bytes(_CHUNK_BYTES, "big")), _POWERS))


def partition_for(key: str, partition_count: int) -> int:
    code = java_string_hash(key)
    # The smallest int has no positive counterpart in 32 bits; Kafka maps it to 0.
    return 0 if code == -(1 << 31) else abs(code) % partition_count
