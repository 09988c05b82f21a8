"""Payloads put together from pieces: for each part of a payload an array with the bytes of all rows, joined at the end.

Arrow joins arrays of bytes row by row in C++, at about 10 ns a piece. The insides of lists and maps need no joining:
the bytes of a list's items lie behind each other, so the list is a place in the same buffer.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.serdes.columns.payloads import Numbers

# An array of binary without nulls, one element a row; or bytes that are the same in all rows.
Piece: TypeAlias = "pa.Array | bytes"

# The most bytes that an array of binary can hold.
_MOST_BYTES = 2**31 - 1


class TooManyBytesError(Exception):
    """The rows are too large to be encoded at once; a batch of fewer rows may fit."""


def offsets_of(values: pa.Array) -> Numbers:
    """The starts and ends of the elements of an array of binary in its buffer."""
    _, buffer, _ = values.buffers()
    if buffer is None or not buffer.size:
        return np.zeros(1, dtype=np.int32)
    return np.frombuffer(buffer, dtype=np.int32)[values.offset : values.offset + len(values) + 1]


def _of(offsets: Numbers, data: pa.Buffer | None) -> pa.Array:
    if int(offsets[-1]) > _MOST_BYTES:
        raise TooManyBytesError
    buffer = pa.py_buffer(b"") if data is None else data
    places = pa.py_buffer(np.ascontiguousarray(offsets, dtype=np.int32))
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, [None, places, buffer])


def _places(sizes: Numbers) -> Numbers:
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def rows_of(matrix: Numbers) -> pa.Array:
    """One element for each row of a matrix of bytes."""
    count, width = matrix.shape
    return _of(np.arange(count + 1, dtype=np.int64) * width, pa.py_buffer(np.ascontiguousarray(matrix)))


def rows_of_sizes(matrix: Numbers, is_kept: Numbers) -> pa.Array:
    """The bytes of each row that `kept` marks."""
    return _of(_places(is_kept.sum(axis=1)), pa.py_buffer(matrix[is_kept]))


def little_endian(numbers: Numbers, layout: str) -> pa.Array:
    """`layout`: `<f8` and the like."""
    whole = np.ascontiguousarray(numbers, dtype=layout)
    return rows_of(whole.view(np.uint8).reshape(len(whole), whole.dtype.itemsize))


def varints(numbers: Numbers) -> pa.Array:
    """Numbers without a sign, seven bits a byte, the lowest first."""
    numbers = numbers.astype(np.uint64, copy=False)
    largest = int(numbers.max()) if len(numbers) else 0
    if largest < 0x80:
        return rows_of(numbers.astype(np.uint8).reshape(-1, 1))
    most = max(1, -(-largest.bit_length() // 7))
    sizes = np.ones(len(numbers), dtype=np.int64)
    for place in range(1, most):
        sizes += numbers >= np.uint64(1 << 7 * place)
    offsets = _places(sizes)
    data = np.empty(int(offsets[-1]), dtype=np.uint8)
    at, left, sizes_left = offsets[:-1], numbers, sizes
    for _ in range(most):
        low = (left & np.uint64(0x7F)).astype(np.uint8)
        has_more = sizes_left > 1
        data[at] = low | (has_more.astype(np.uint8) << np.uint8(7))
        if not has_more.any():
            break
        at, left, sizes_left = at[has_more] + 1, left[has_more] >> np.uint64(7), sizes_left[has_more] - 1
    return _of(offsets, pa.py_buffer(data))


def zigzag(numbers: Numbers) -> Numbers:
    signed = numbers.astype(np.int64, copy=False)
    return ((signed << 1) ^ (signed >> 63)).view(np.uint64)


def sizes_of(values: pa.Array) -> Numbers:
    """The size of an array of binary, in bytes."""
    return np.diff(offsets_of(values))


def joined(pieces: list[Piece], count: int) -> pa.Array:
    """One array with the bytes of all pieces, row by row."""
    arrays = [each for each in pieces if not isinstance(each, bytes)]
    if len(arrays) == 1 and len(pieces) == 1:
        return arrays[0]
    if not arrays:
        text = b"".join(each for each in pieces if isinstance(each, bytes))
        return rows_of(np.tile(np.frombuffer(text, dtype=np.uint8), (count, 1)))
    try:
        return pc.binary_join_element_wise(*_merged_constants(pieces), b"")
    except pa.ArrowCapacityError:
        raise TooManyBytesError from None


def _merged_constants(pieces: list[Piece]) -> list[Piece | pa.Scalar]:
    out: list[Piece] = []
    for each in pieces:
        last = out[-1] if out else None
        if isinstance(each, bytes) and isinstance(last, bytes):
            out[-1] = last + each
        else:
            out.append(each)
    return [pa.scalar(each, pa.binary()) if isinstance(each, bytes) else each for each in out]


def spread(values: pa.Array, is_there: Numbers) -> pa.Array:
    """The values at the rows that have one, and empty elements at the others. No byte is copied."""
    source = offsets_of(values)
    return _of(source[_places(is_there)], values.buffers()[2])


def grouped(items: pa.Array, borders: Numbers) -> pa.Array:
    """Items that follow each other as one value: `borders` has the first item of each value, and the end."""
    return _of(offsets_of(items)[borders], items.buffers()[2])
