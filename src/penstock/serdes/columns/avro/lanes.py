"""A position for each row. A step reads the same thing from all rows at once.

A row that does not fit *fails*: its position moves to the zeros behind all payloads, where everything that a step reads
is empty or zero. So no step looks at failures of those before. Failed rows are read again, one by one, by the reader
that knows what to say about them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.serdes.columns.payloads import Numbers, Payloads, cut

_LAST_SHIFT = 63
# Where more numbers than one in so many have a second byte, eight bytes of all of them are read at once.
_FEW = 4
_ONE = np.uint64(1)
_ENDS = np.uint64(0x8080808080808080)
# Seven bits of each of eight bytes become 56 bits: pairs of 8 bits first, then of 16, then of 32.
_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)
_PACKING = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)


class Lanes:
    __slots__ = ("data", "end", "failed", "position", "zeros")

    def __init__(self, data: Numbers, position: Numbers, end: Numbers, failed: Numbers, zeros: int) -> None:
        self.data = data
        self.position = position
        self.end = end
        self.failed = failed
        self.zeros = zeros

    @classmethod
    def of(cls, payloads: Payloads) -> Lanes:
        failed = np.zeros(len(payloads), dtype=bool)
        return cls(payloads.data, payloads.starts.copy(), payloads.ends.copy(), failed, payloads.zeros)

    def __len__(self) -> int:
        return len(self.position)

    def some(self, which: Numbers) -> Lanes:
        return Lanes(self.data, self.position[which], self.end[which], self.failed[which], self.zeros)

    def take_back(self, which: Numbers, others: Lanes) -> None:
        """Continue where some of the lanes have got to."""
        self.position[which] = others.position
        self.end[which] = others.end
        self.failed[which] = others.failed

    def fail(self, which: Numbers) -> None:
        self.failed[which] = True
        self.position[which] = self.zeros
        self.end[which] = self.zeros

    def fail_if(self, is_bad: Numbers, *values: Numbers) -> None:
        """Fail, and set what was read to zero."""
        if is_bad.any():
            for each in values:
                each[is_bad] = 0
            self.fail(is_bad)

    def longs(self) -> Numbers:
        """Numbers of 64 bits, zigzag."""
        number = self._varints()
        value: Numbers = ((number >> _ONE) ^ (~(number & _ONE) + _ONE)).view(np.int64)
        self.fail_if(self.position > self.end, value)
        return value

    def _varints(self) -> Numbers:
        """A round for each byte that the longest number has, or eight bytes at once where many have more than one.

        The second way takes 9 ns a number of any size, the first 4 ns and 10 ns for each further byte (bench/decoding).
        """
        data = self.data
        byte = data[self.position]
        has_more = byte > 0x7F
        if np.count_nonzero(has_more) * _FEW > len(byte):
            number, sizes, has_more = _packed(self.strided("<u8")[self.position])
            position = self.position + sizes
            shift = 56
        else:
            number = (byte & 0x7F).astype(np.uint64)
            position = self.position + 1
            shift = 7
        more = np.flatnonzero(has_more)
        while len(more):
            byte = data[position[more]]
            number[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            position[more] += 1
            if shift == _LAST_SHIFT:  # one bit is left
                position[more[byte > 1]] = len(data)
                break
            more = more[byte > 0x7F]
            shift += 7
        self.position = position
        return number

    def skip_longs(self) -> None:
        self._varints()
        self.fail_if(self.position > self.end)

    def skip(self, size: int) -> None:
        """So many bytes of each row."""
        self.position = self.position + size
        self.fail_if(self.position > self.end)

    def skip_spans(self) -> None:
        """Values that have their size in front."""
        size = self.longs()
        is_bad = (size < 0) | (size > self.end - self.position)
        self.position = self.position + size
        self.fail_if(is_bad)

    def fixed(self, size: int) -> Numbers:
        """Where values of a known size begin. Failed ones begin in the zeros."""
        starts = self.position.copy()
        is_bad = size > self.end - starts
        self.position = starts + size
        self.fail_if(is_bad)
        if is_bad.any():
            starts[is_bad] = self.zeros
        return starts

    def strided(self, kind: str) -> Numbers:
        """The buffer with a number of the kind at each byte, to be read at any place."""
        size = np.dtype(kind).itemsize
        return np.ndarray((len(self.data) - size + 1,), kind, self.data, strides=(1,))

    def matrix(self, starts: Numbers, size: int) -> Numbers:
        """So many bytes of each row, side by side."""
        found: Numbers = self.data[starts[:, None] + np.arange(size)]
        return found

    def spans(self) -> tuple[Numbers, Numbers]:
        """Where values begin that have their size in front, and their sizes."""
        size = self.longs()
        starts = self.position.copy()
        is_bad = (size < 0) | (size > self.end - starts)
        self.position = starts + size
        self.fail_if(is_bad, size)
        if is_bad.any():
            starts[is_bad] = self.zeros
        return starts, size

    def cut(self, starts: Numbers, sizes: Numbers | int) -> pa.Array:
        """Values of other lengths. Failed rows are empty."""
        ends = starts + sizes
        if self.failed.any():
            # Where the last value before them ends, because pieces come in the order of the buffer.
            both: Numbers = np.empty(2 * len(starts), dtype=np.int64)
            both[0::2] = np.where(self.failed, 0, starts)
            both[1::2] = np.where(self.failed, 0, ends)
            both = np.maximum.accumulate(both)
            starts, ends = both[0::2], both[1::2]
        return cut(self.data, starts, ends)

    def texts(self, starts: Numbers, sizes: Numbers | int) -> pa.Array:
        """The same as text. What is no UTF-8 fails, and is empty."""
        found = self.cut(starts, sizes)
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:
            texts = [_text(each) for each in found.to_pylist()]
            self.fail(np.array([text is None for text in texts], dtype=bool))
            return pa.array([text or "" for text in texts], pa.string())


def _packed(word: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Numbers of up to eight bytes of seven bits, how many bytes they have, and whether more follow."""
    ends = ~word & _ENDS
    first = ends & (~ends + _ONE)
    inside = first ^ (first - _ONE)
    word &= inside & _SEVENS
    for low, high, shift in _PACKING:
        word = (word & low) | ((word & high) >> shift)
    return word, (np.bitwise_count(inside) >> 3).astype(np.int64), ends == 0


def _text(data: Any) -> str | None:
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return None
