"""Reads the next tags of all rows, and passes over the bytes of unwanted fields.

A tag is a number here: the field's number and, in three bits, how the value is written. Rows at their end have END,
which is more than any tag, so one comparison finds the rows whose next field has a lower number than a step wants.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.serdes.columns.avro.row_cursors import RowCursors, words_at
from penstock.serdes.columns.payloads import Numbers
from penstock.serdes.errors import PayloadError

VARINT: Final = 0
FIXED64: Final = 1
SPAN: Final = 2
FIXED32: Final = 5

END: Final = 1 << 62
# A tag with more bytes than it needs: the other reader takes the row.
_ODD: Final = -1
_MOST_TAG_BYTES: Final = 5
_MOST_TAG: Final = (1 << 32) - 1
# Of one byte, of two, and so on.
_LARGEST_TAGS: Final = (1 << 7 * np.arange(1, _MOST_TAG_BYTES)) - 1

# A round reads one value of each row. Once so many rounds were made and so few rows go on, single rows are quicker:
# a round takes about as long as a hundred values that are read one by one.
MANY_ROUNDS: Final = 32
FEW_LANES: Final = 128


# Values of the messages in a list, all their columns counted. An empty message takes two bytes and has them all.
_MOST_VALUES: Final = 1 << 24


class TooManyValuesError(PayloadError):
    """This many rows cannot be read at once, or not even one."""

    def __init__(self) -> None:
        super().__init__(f"the messages in a list have more than {_MOST_VALUES} values")


def check_count(count: int, columns: int) -> None:
    """Raises TooManyValuesError. Lists of single values are never much larger than the payload."""
    if columns > 1 and count * columns > _MOST_VALUES:
        raise TooManyValuesError


def tag_size(tag: int) -> int:
    return max(1, -(-tag.bit_length() // 7))


def read_tags(cursors: RowCursors) -> Numbers:
    """The next tag of each lane. Positions stay in front of it."""
    data, position = cursors.data, cursors.position
    tags: Numbers = data[position].astype(np.int64)
    more = longer = np.flatnonzero(tags > 0x7F)
    for size in range(1, _MOST_TAG_BYTES):
        if not len(more):
            break
        byte = data[position[more] + size].astype(np.int64)
        tags[more] += (byte - 1) << (7 * size)  # less the bit that announced this byte
        tags[more[byte == 0]] = _ODD
        more = more[byte > 0x7F]
    tags[more] = _ODD
    tags[longer[tags[longer] > _MOST_TAG]] = _ODD
    tags[position >= cursors.end] = END
    return tags


def read_numbers(cursors: RowCursors, wire: int) -> Numbers:
    if wire == VARINT:
        return cursors.varints()
    return (
        words_at(cursors.data, cursors.fixed(8), "<u8")
        if wire == FIXED64
        else words_at(cursors.data, cursors.fixed(4), "<u4")
    )


def read_spans(cursors: RowCursors) -> tuple[Numbers, Numbers]:
    """The starts and ends of values with their size in front."""
    size = cursors.varints().view(np.int64)
    starts = cursors.position.copy()
    is_bad = (size < 0) | (size > cursors.end - starts)
    if is_bad.any():
        size[is_bad] = 0
        starts[is_bad] = cursors.zeros
        cursors.fail(is_bad)
    cursors.position = ends = starts + size
    return starts, ends.copy()


class Skipping:
    """Passes by unknown fields. A known field here comes in another order: such rows fail."""

    def __init__(self, known: frozenset[int]) -> None:
        self._known = known
        self._sorted = np.array(sorted(known), dtype=np.int64)

    def skip(self, cursors: RowCursors, tags: Numbers, below: int) -> None:
        """Goes on until no lane has a tag below `below`."""
        which = np.flatnonzero(tags < below)
        rounds = 0
        while len(which):
            rounds += 1
            if rounds > MANY_ROUNDS and len(which) < FEW_LANES:
                give_up(cursors, tags, which)
                return
            self._round(cursors, tags, which)
            which = which[tags[which] < below]

    def _round(self, cursors: RowCursors, tags: Numbers, which: Numbers) -> None:
        found = tags[which]
        first = int(found[0])
        if (found == first).all():  # a field that newer writers have
            if first >> 3 in self._known:
                give_up(cursors, tags, which)
            else:
                _pass(cursors, tags, which, first & 7, tag_size(first))
            return
        is_known = np.isin(found >> 3, self._sorted)
        give_up(cursors, tags, which[is_known])
        which, found = which[~is_known], found[~is_known]
        sizes = 1 + np.searchsorted(_LARGEST_TAGS, found)
        for wire in range(8):
            is_so = (found & 7) == wire
            if is_so.any():
                _pass(cursors, tags, which[is_so], wire, sizes[is_so])


def _pass(cursors: RowCursors, tags: Numbers, which: Numbers, wire: int, size: int | Numbers) -> None:
    if wire not in (VARINT, FIXED64, SPAN, FIXED32) or (tags[which] < 8).any():  # groups, and no field has the number 0
        give_up(cursors, tags, which)
        return
    some = cursors.some(which)
    some.position += size
    if wire == SPAN:
        read_spans(some)
    elif wire == VARINT:
        some.varints()
    else:
        some.fixed(8 if wire == FIXED64 else 4)
    cursors.take_back(which, some)
    tags[which] = read_tags(some)


def give_up(cursors: RowCursors, tags: Numbers, which: Numbers) -> None:
    cursors.fail(which)
    tags[which] = END
