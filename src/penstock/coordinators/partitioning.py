"""Which partition of a coordinator's topic holds a group or a transactional id."""

from __future__ import annotations

import struct
from functools import lru_cache

_UINT32_MASK = 0xFFFFFFFF
_INT32_SIGN = 0x80000000


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, wrapping at 32 bits, signed."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for unit in struct.unpack(f">{len(encoded) // 2}H", encoded):
        result = (31 * result + unit) & _UINT32_MASK
    return result - (1 << 32) if result & _INT32_SIGN else result


# Every request of a coordinator asks, mostly for the few ids that are in use.
@lru_cache(maxsize=4096)
def partition_for(key: str, partition_count: int) -> int:
    code = java_string_hash(key)
    # The smallest int has no positive counterpart in 32 bits; Kafka maps it to 0.
    return 0 if code == -(1 << 31) else abs(code) % partition_count
