"""Which partition of a coordinator's topic holds a group or a transactional id.

Nothing is cached: the ids come from clients, any client may send any number of long ones, and the hash of a usual id
costs a few microseconds.
"""

from __future__ import annotations

import struct
from operator import mul

_UINT32_MASK = 0xFFFFFFFF
_INT32_SIGN = 0x80000000
# The hash is a polynomial. A whole chunk of it is one sum of products, which is faster than a step for every unit.
_CHUNK_UNITS = 1_024
_POWERS = [pow(31, exponent, 1 << 32) for exponent in range(_CHUNK_UNITS, -1, -1)]


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, wrapping at 32 bits, signed."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    units = struct.unpack(f">{len(encoded) // 2}H", encoded)
    result = 0
    for start in range(0, len(units), _CHUNK_UNITS):
        chunk = units[start : start + _CHUNK_UNITS]
        shift, *factors = _POWERS[_CHUNK_UNITS - len(chunk) :]
        result = (result * shift + sum(map(mul, chunk, factors))) & _UINT32_MASK
    return result - (1 << 32) if result & _INT32_SIGN else result


def partition_for(key: str, partition_count: int) -> int:
    code = java_string_hash(key)
    # The smallest int has no positive counterpart in 32 bits; Kafka maps it to 0.
    return 0 if code == -(1 << 31) else abs(code) % partition_count
