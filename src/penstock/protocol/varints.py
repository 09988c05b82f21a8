"""Unsigned variable-length integers, as lengths and counts have them in flexible versions."""

from __future__ import annotations

from penstock.core.types import Buffer


def write_unsigned_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def read_unsigned_varint(data: Buffer, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 35:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise ValueError("a varint is longer than 5 bytes")
