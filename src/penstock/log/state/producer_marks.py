"""Recent copies of the producer state in memory: the start of a replay after a truncation.

A follower truncates records that its leader does not have, on the event loop. Without marks all that stayed of the
active segment was replayed then, since the newest snapshot on disk is mostly at the beginning of the segment: 0.94 s
for 324 MB. A truncation is hardly ever below the high watermark, so the state is copied near it while the log grows: a
mark at regular distances in bytes, of which the newest at or below the high watermark stays, and all above it. A
truncation replays the batches between a mark and the cut.

A log with one replica is never truncated. It gets marks at a start alone, if its high watermark lagged behind its end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from penstock.log.state.producer_state import ProducerStateEntry

# The bytes between two marks. A replay of them takes 10 ms with the smallest batches (70 bytes).
_LEAST_INTERVAL = 256 * 1024
# The copy of an entry takes 1 us. This makes it 1.2 ms for 10 MB, however many producers there are.
_INTERVAL_PER_ENTRY = 8 * 1024
# Where the high watermark does not move, every second mark is dropped, and the next marks are twice as far apart.
_MOST_MARKS = 16
# The number of entries in all marks of a log: 20 MB. A log that knows half as many producers, which could write at
# once, gets no marks: a copy would take 10 ms of the event loop, and at least two are needed.
_MOST_ENTRIES = 20_000
_LEAST_MARKS = 2


class ProducerMark(NamedTuple):
    offset: int  # the mark has every batch before it
    entries: list[ProducerStateEntry]
    unreplicated: Mapping[int, int]  # transactions whose markers were above the high watermark

    def copies(self) -> list[ProducerStateEntry]:
        return [entry.copy() for entry in self.entries]


class ProducerMarks:
    __slots__ = ("_interval", "_marks", "_position", "_segment", "_spacing")

    def __init__(self) -> None:
        self._marks: list[ProducerMark] = []  # by offset
        self._segment = -1  # the base offset of the last mark's segment
        self._position = 0  # the size of the segment then
        self._interval = _LEAST_INTERVAL
        self._spacing = 1

    def is_due(self, segment: int, position: int) -> bool:
        return segment != self._segment or position - self._position >= self._interval

    def make(
        self,
        offset: int,
        segment: int,
        position: int,
        entries: Collection[ProducerStateEntry],
        unreplicated: Mapping[int, int],
    ) -> None:
        """The state is that of `offset`, which stands at `position` of the segment with the base offset `segment`."""
        marks, room = self._marks, min(_MOST_MARKS, _MOST_ENTRIES // (len(entries) + 1))
        if len(marks) >= room:
            del marks[1::2]
            self._spacing *= 2
        if room >= _LEAST_MARKS and (not marks or marks[-1].offset < offset):
            marks.append(ProducerMark(offset, [entry.copy() for entry in entries], dict(unreplicated)))
        self._segment, self._position = segment, position
        self._interval = self._spacing * max(_LEAST_INTERVAL, _INTERVAL_PER_ENTRY * len(entries))

    def note_high_watermark(self, high_watermark: int) -> None:
        """Of the marks that no truncation goes below, the newest is enough."""
        marks = self._marks
        while len(marks) > 1 and marks[1].offset <= high_watermark:
            del marks[0]
            self._spacing = 1

    def find(self, start_offset: int, end_offset: int) -> ProducerMark | None:
        """The newest between the two."""
        for mark in reversed(self._marks):
            if start_offset <= mark.offset <= end_offset:
                return mark
        return None

    def cut(self, end_offset: int) -> None:
        """The log ends at `end_offset` now."""
        self._marks = [mark for mark in self._marks if mark.offset <= end_offset]
        self._segment = -1
