"""A position for each row. A step reads the same thing from all rows at once.

A row that does not fit *fails*: its position moves to the zeros behind all payloads, where each step reads empty values
or zeros. So no step checks for failures of those before. The second reader reads failed rows again, one by one, and
knows the reason of a failure.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.serdes.columns.payloads import Numbers, Payloads, cut

_HIGH_BITS = np.uint64(0x8080_8080_8080_8080)
# Steps that close the gaps that the high bits leave: pairs of 7 bits become 14, then 28, then 56.
_GAPS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F_007F_007F_007F, 0x7F00_7F00_7F00_7F00, 1),
        (0x0000_3FFF_0000_3FFF, 0x3FFF_0000_3FFF_0000, 2),
        (0x0000_0000_0FFF_FFFF, 0x0FFF_FFFF_0000_0000, 4),
    )
)
_ONE = np.uint64(1)


def words_at(data: Numbers, position: Numbers, kind: str) -> Numbers:
    """A word that begins at any byte, for each position: in one step, where a matrix of bytes takes one for each."""
    size = np.dtype(kind).itemsize
    found: Numbers = np.ndarray((len(data) - size + 1,), kind, data, strides=(1,))[position]
    return found


def varints_at(data: Numbers, position: Numbers) -> tuple[Numbers, Numbers]:
    """Numbers and their sizes in bytes; size 0 for numbers of more than 64 bits."""
    byte = data[position]
    if not (byte > 0x7F).any():
        return byte.astype(np.uint64), np.ones(len(position), dtype=np.int64)
    word = words_at(data, position, "<u8")
    ending = ~word & _HIGH_BITS
    ending &= ~ending + _ONE  # the lowest of them
    word &= ending - _ONE  # all 64 bits where no byte ends the number
    size = (np.bitwise_count(ending - _ONE) >> 3).astype(np.int64) + 1
    for low, high, shift in _GAPS:
        word = (word & low) | ((word & high) >> shift)
    longer = np.flatnonzero(ending == 0)
    if len(longer):
        _read_rest(data, position[longer] + 8, longer, word, size)
    return word, size


def _read_rest(data: Numbers, position: Numbers, which: Numbers, word: Numbers, size: Numbers) -> None:
    """The ninth byte and the tenth, which has one bit."""
    ninth, tenth = data[position], data[position + 1]
    word[which] |= (ninth & 0x7F).astype(np.uint64) << np.uint64(56)
    is_longest = ninth > 0x7F
    word[which[is_longest]] |= (tenth[is_longest] & 1).astype(np.uint64) << np.uint64(63)
    size[which] = np.where(is_longest, np.where(tenth <= 1, 10, 0), 9)


class RowCursors:
    __slots__ = ("data", "end", "failed", "position", "zeros")

    def __init__(self, data: Numbers, position: Numbers, end: Numbers, failed: Numbers, zeros: int) -> None:
        self.data = data
        self.position = position
        self.end = end
        self.failed = failed
        self.zeros = zeros

    @classmethod
    def of(cls, payloads: Payloads) -> RowCursors:
        failed = np.zeros(len(payloads), dtype=bool)
        return cls(payloads.data, payloads.starts.copy(), payloads.ends.copy(), failed, payloads.zeros)

    def __len__(self) -> int:
        return len(self.position)

    def some(self, which: Numbers) -> RowCursors:
        return RowCursors(self.data, self.position[which], self.end[which], self.failed[which], self.zeros)

    def take_back(self, which: Numbers, others: RowCursors) -> None:
        """Takes over the positions of some of the lanes."""
        self.position[which] = others.position
        self.end[which] = others.end
        self.failed[which] = others.failed

    def fail(self, which: Numbers) -> None:
        self.failed[which] = True
        self.position[which] = self.zeros
        self.end[which] = self.zeros

    def fail_if(self, is_bad: Numbers, *values: Numbers) -> None:
        """Lanes that are bad fail, and their values become zero."""
        if is_bad.any():
            for each in values:
                each[is_bad] = 0
            self.fail(is_bad)

    def longs(self) -> Numbers:
        """Numbers of 64 bits, zigzag."""
        number = self.varints()
        value: Numbers = ((number >> np.uint64(1)) ^ (~(number & np.uint64(1)) + np.uint64(1))).view(np.int64)
        return value

    def varints(self) -> Numbers:
        """Numbers of 64 bits without a sign, seven bits a byte. Larger ones, and those past the row's end, fail."""
        number, size = varints_at(self.data, self.position)
        self.position = self.position + size
        self.fail_if((size == 0) | (self.position > self.end), number)
        return number

    def skip_longs(self) -> None:
        self.varints()

    def skip(self, size: int) -> None:
        """Skips `size` bytes of each row."""
        self.position = self.position + size
        self.fail_if(self.position > self.end)

    def skip_spans(self) -> None:
        """Skips values with their size in front."""
        size = self.longs()
        is_bad = (size < 0) | (size > self.end - self.position)
        self.position = self.position + size
        self.fail_if(is_bad)

    def fixed(self, size: int) -> Numbers:
        """The starts of values of a known size. Failed ones start in the zeros."""
        starts = self.position.copy()
        is_bad = size > self.end - starts
        self.position = starts + size
        self.fail_if(is_bad)
        if is_bad.any():
            starts[is_bad] = self.zeros
        return starts

    def matrix(self, starts: Numbers, size: int) -> Numbers:
        """`size` bytes of each row, side by side."""
        found: Numbers = self.data[starts[:, None] + np.arange(size)]
        return found

    def spans(self) -> tuple[Numbers, Numbers]:
        """The starts and sizes of values with their size in front."""
        size = self.longs()
        starts = self.position.copy()
        is_bad = (size < 0) | (size > self.end - starts)
        self.position = starts + size
        self.fail_if(is_bad, size)
        if is_bad.any():
            starts[is_bad] = self.zeros
        return starts, size

    def cut(self, starts: Numbers, sizes: Numbers | int) -> pa.Array:
        """Values of different lengths. Failed rows are empty."""
        ends = starts + sizes
        if self.failed.any():
            # An empty piece stands where the last value before it ends, because pieces come in the order of the buffer.
            both: Numbers = np.empty(2 * len(starts), dtype=np.int64)
            both[0::2] = np.where(self.failed, 0, starts)
            both[1::2] = np.where(self.failed, 0, ends)
            both = np.maximum.accumulate(both)
            starts, ends = both[0::2], both[1::2]
        return cut(self.data, starts, ends)

    def texts(self, starts: Numbers, sizes: Numbers | int) -> pa.Array:
        """The same as text. A value that is no UTF-8 fails, and is empty."""
        found = self.cut(starts, sizes)
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:
            self.fail(_no_texts(found))
            return self.cut(starts, sizes).cast(pa.string())


def _no_texts(found: pa.Array) -> Numbers:
    """The rows that are no UTF-8. Rows of ASCII alone are not checked one by one."""
    _, offsets_buffer, data = found.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[: len(found) + 1]
    high = np.flatnonzero(np.frombuffer(data, dtype=np.uint8)[: offsets[-1]] > 0x7F)
    rows = np.unique(np.searchsorted(offsets, high, side="right") - 1)
    return np.array([row for row in rows.tolist() if not _is_text(found[row].as_py())], dtype=np.int64)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
